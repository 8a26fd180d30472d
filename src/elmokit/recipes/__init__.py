"""Whole runs as TOML files, found by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..settings import nearest, read_toml

FOLDER = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_recipe(name: str) -> dict[str, Any]:
    """A bundled recipe by its name, or a TOML file."""
    path = Path(name)
    if name in names():
        path = FOLDER / f"{name}.toml"
    elif not path.is_file():
        raise SettingsError(
            f"no recipe or file '{name}'{nearest(name, names())}", hint=f"bundled recipes: {', '.join(names())}"
        )
    return read_toml(path)
