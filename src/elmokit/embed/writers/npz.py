"""NumPy's archive: array "0", "1", ... of (layer, token, dim) for each sentence, and their tokens as JSON.

archive = numpy.load("vectors.npz")
archive["0"], json.loads(archive["tokens.json"])[0]
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import TracebackType

import numpy as np

from ..vectors import SentenceVectors


class NpzWriter:
    """Written sentence by sentence, which `numpy.savez` cannot."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w")
        self._tokens: list[tuple[str, ...]] = []

    def __enter__(self) -> NpzWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self._zip.writestr("tokens.json", json.dumps(self._tokens))
        self._zip.close()

    def write(self, vectors: SentenceVectors, text: str) -> None:
        with self._zip.open(f"{len(self._tokens)}.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array(file, np.ascontiguousarray(vectors.layers), allow_pickle=False)
        self._tokens.append(vectors.tokens)
