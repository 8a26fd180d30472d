"""The layout of `allennlp elmo`: dataset "i" of (layer, token, dim), and `sentence_to_index`.

`sentence_to_index` is one JSON text of {sentence: "i"}. Lines that are equal share a key there, as they always did:
the datasets are counted by line, so nothing is lost.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from ...weights.hdf5_output import Hdf5Output
from ..vectors import SentenceVectors


class Hdf5Writer:
    """Keys are numbers, so a "/" in a sentence is harmless."""

    def __init__(self, path: Path) -> None:
        self._output = Hdf5Output(path)
        self._index: dict[str, str] = {}
        self._n = 0

    def __enter__(self) -> Hdf5Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import h5py

        with self._output:
            if error is not None:
                raise error
            self._output.add("sentence_to_index", [json.dumps(self._index)], dtype=h5py.string_dtype())

    def write(self, vectors: SentenceVectors, text: str) -> None:
        self._output.add(str(self._n), vectors.layers, dtype="float32")
        self._index[text] = str(self._n)
        self._n += 1
