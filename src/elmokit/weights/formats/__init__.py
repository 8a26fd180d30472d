"""The table of weight formats. A format is one file with an object of this shape, and one line here.

Order matters where a source could be several: the first that claims it reads it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol

from ...errors import UnknownFormat
from ...settings import nearest
from ..bundle import WeightBundle

FORMATS = {
    "native": "elmokit.weights.formats.native:NATIVE",
    "bilm-hdf5": "elmokit.weights.formats.bilm_hdf5:BILM_HDF5",
}


class Format(Protocol):
    """Reads and writes one layout."""

    def weights_file(self, source: Path) -> Path | None:
        """The main file of `source` (a file or a folder) where its content is of this format, else None."""

    def read(self, weights: Path, *, options: Path | None, softmax: bool, checksum: bool) -> WeightBundle: ...

    def target_files(self, bundle: WeightBundle, target: Path) -> list[Path]:
        """The files that `write` would make, the main one first."""

    def write(self, bundle: WeightBundle, target: Path) -> list[Path]:
        """Write beside and rename; return the files, the main one first."""


def get_format(name: str) -> Format:
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise UnknownFormat(f"no weight format '{name}'{nearest(name, list(FORMATS))}", hint=f"one of: {known}")
    module, _, attribute = FORMATS[name].partition(":")
    found: Format = getattr(import_module(module), attribute)
    return found
