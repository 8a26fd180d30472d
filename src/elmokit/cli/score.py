"""`elmokit score`: how surprising each token is."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from .embed import opened
from .options import ModelOptions

if TYPE_CHECKING:
    from ..embed.language_model import TokenScores


def score(
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    model_options: ModelOptions,
    json: bool = False,
) -> None:
    """Print the surprisal, in bits, of each token: given all before it, and given all behind it.

    Parameters
    ----------
    text
        A UTF-8 text file of one sentence a line, or - for standard input.
    json
        A JSON object a sentence, with natural logs of the probabilities.
    """
    from ..text.lines import lines

    embedder = model_options.load()
    with opened(text) as file:
        for scores in embedder.score(lines(file, text)):
            print(json_module.dumps(_facts(scores)) if json else _readable(scores))


def _facts(scores: TokenScores) -> dict[str, Any]:
    return {
        "tokens": scores.tokens,
        "forward": None if scores.forward is None else scores.forward.tolist(),
        "backward": None if scores.backward is None else scores.backward.tolist(),
        "forward_end": scores.forward_end,
        "backward_end": scores.backward_end,
    }


def _readable(scores: TokenScores) -> str:
    width = max((len(token) for token in scores.tokens), default=0)
    columns = [d for d in ("forward", "backward") if getattr(scores, d) is not None]
    bits = [scores.surprisal(d) for d in columns]  # type: ignore[arg-type]
    head = f"{'bits':<{width}}" + "".join(f"{column:>10}" for column in columns)
    rows = (
        f"{token:<{width}}" + "".join(f"{values[i]:>10.1f}" for values in bits) for i, token in enumerate(scores.tokens)
    )
    return "\n".join([head, *rows, ""])
