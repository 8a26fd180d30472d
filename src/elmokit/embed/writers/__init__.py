"""The table of vector files. A format is one file with a class of this shape, and one line for each suffix."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Protocol

from ...errors import SettingsError
from ..vectors import SentenceVectors

WRITERS = {
    ".npz": "elmokit.embed.writers.npz:NpzWriter",
    ".jsonl": "elmokit.embed.writers.jsonl:JsonlWriter",
    ".hdf5": "elmokit.embed.writers.hdf5:Hdf5Writer",
    ".h5": "elmokit.embed.writers.hdf5:Hdf5Writer",
}


class Writer(AbstractContextManager["Writer"], Protocol):
    """Entered with a path to write to; whoever opens it moves the whole file to its place."""

    def __init__(self, path: Path) -> None: ...

    def write(self, vectors: SentenceVectors, text: str) -> None:
        """The next sentence; `text` is what it was read from."""


def get_writer(path: Path) -> type[Writer]:
    """The writer that a file's suffix names."""
    if path.suffix not in WRITERS:
        raise SettingsError(
            f"{path}: no format is called '{path.suffix}'", hint=f"end the name in one of: {', '.join(WRITERS)}"
        )
    module, _, attribute = WRITERS[path.suffix].partition(":")
    found: type[Writer] = getattr(import_module(module), attribute)
    return found
