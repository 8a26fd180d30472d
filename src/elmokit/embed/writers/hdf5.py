"""The layout of `allennlp elmo`: dataset "i" of (layer, token, dim), and `sentence_to_index`.

`sentence_to_index` is one JSON text of {sentence: "i"}. Lines that are equal share a key there, as they always did:
the datasets are counted by line, so nothing is lost.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from ..vectors import SentenceVectors


class Hdf5Writer:
    """Keys are numbers, so a "/" in a sentence is harmless."""

    def __init__(self, path: Path) -> None:
        import h5py

        self._file = h5py.File(path, "w")
        self._index: dict[str, str] = {}
        self._n = 0

    def __enter__(self) -> Hdf5Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        import h5py

        if kind is None:
            table = self._file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
            table[0] = json.dumps(self._index)
        self._file.close()

    def write(self, vectors: SentenceVectors, text: str) -> None:
        self._file.create_dataset(str(self._n), data=vectors.layers, dtype="float32")
        self._index[text] = str(self._n)
        self._n += 1
