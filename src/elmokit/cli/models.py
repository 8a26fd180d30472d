"""`elmokit models`: what can be had by name."""

from __future__ import annotations

import json as json_module


def models(*, json: bool = False) -> None:
    """List the models that come with elmokit.

    Parameters
    ----------
    json
        Print one JSON object a model instead.
    """
    from ..weights.catalog import BUNDLED

    width = max(map(len, BUNDLED))
    for name, model in BUNDLED.items():
        if json:
            described = {"name": name, "description": model.description, "languages": list(model.languages)}
            print(json_module.dumps(described))
        else:
            print(f"{name:<{width}}  {', '.join(model.languages) or '-':<4}  {model.description}")
