"""One JSON object a line: index, text, tokens, and layers as (layer, token, dim) lists."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from ..vectors import SentenceVectors, Vectors


class JsonlWriter:
    """Numbers have nine digits, which give the very float32 back."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._n = 0

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._file.close()

    def write(self, vectors: SentenceVectors, text: str) -> None:
        self._file.write(line(vectors, text, index=self._n) + "\n")
        self._n += 1


def line(vectors: SentenceVectors, text: str, *, index: int) -> str:
    head = json.dumps({"index": index, "text": text, "tokens": vectors.tokens})
    return f'{head[:-1]}, "layers": {_numbers(vectors.layers)}}}'


def _numbers(array: Vectors) -> str:
    if array.ndim == 1:
        return f"[{', '.join(f'{x:.9g}' for x in array.tolist())}]"
    return f"[{', '.join(_numbers(row) for row in array)}]"
