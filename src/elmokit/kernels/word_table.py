"""The vectors of words that were read lately, so that the character CNN runs for new words alone.

Text repeats itself: a table of 128 MiB holds all words of most texts. When it is full, the words that were read more
than once stay, the most recent of them and up to half the table, and the others make room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor

TABLE_BYTES = 128 << 20

N_MARKS = 3
"""Rows of every table: padding, `<S>` and `</S>`."""


@dataclass
class TableStats:
    """What a table was asked for: each distinct word of a batch is one question."""

    asked: int = 0
    known: int = 0

    @property
    def hit_rate(self) -> float:
        return self.known / max(1, self.asked)


class WordTable:
    """`compute` gives the vectors of padding, both marks and the words it is given."""

    def __init__(
        self, compute: Callable[[Sequence[str]], Tensor], stats: TableStats, *, max_bytes: int = TABLE_BYTES
    ) -> None:
        self.compute = compute
        self.stats = stats
        self._lock = threading.Lock()
        first = compute([])
        self.capacity = max(N_MARKS, max_bytes // first[0].nbytes)
        # Grown as it fills: few texts need all of it.
        self.vectors: Float[Tensor, "row dim"] = first
        self.row_of: dict[str, int] = {}
        self.read_again: dict[str, None] = {}

    def read(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[Float[Tensor, "row dim"], Int64[ndarray, "sentence step"]]:
        """Vectors, and rows of them for each sentence between its marks; 0 behind its end, and for an empty one.

        Rows that were given out are never written again, so threads may share a table.
        """
        with self._lock:
            return self._read(sentences)

    def _read(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[Float[Tensor, "row dim"], Int64[ndarray, "sentence step"]]:
        distinct = list(dict.fromkeys(chain.from_iterable(sentences)))
        new = [word for word in distinct if word not in self.row_of]
        self.stats.asked += len(distinct)
        self.stats.known += len(distinct) - len(new)
        if N_MARKS + len(distinct) > self.capacity:
            row_of = {word: N_MARKS + i for i, word in enumerate(distinct)}
            return self.compute(distinct), _index(sentences, row_of)
        for word in distinct:
            if word in self.row_of:
                self.read_again.pop(word, None)  # the most recent stands last
                self.read_again[word] = None
        if N_MARKS + len(self.row_of) + len(new) > self.capacity:
            self._make_room(min(self.capacity // 2, self.capacity - N_MARKS - len(distinct)))
            new = [word for word in distinct if word not in self.row_of]
        if new:
            self._add(new)
        return self.vectors, _index(sentences, self.row_of)

    def _add(self, words: list[str]) -> None:
        first = N_MARKS + len(self.row_of)
        last = first + len(words)
        if last > len(self.vectors):
            grown = self.vectors.new_empty(min(self.capacity, max(last, 2 * len(self.vectors))), self.vectors.shape[1])
            grown[:first] = self.vectors[:first]
            self.vectors = grown
        self.vectors[first:last] = self.compute(words)[N_MARKS:]
        self.row_of.update((word, first + i) for i, word in enumerate(words))

    def _make_room(self, n_kept: int) -> None:
        kept = list(self.read_again)[max(0, len(self.read_again) - n_kept) :]
        rows = [*range(N_MARKS), *(self.row_of[word] for word in kept)]
        # A new tensor: a batch on its way may still read the old one.
        self.vectors = self.vectors[rows]
        self.row_of = {word: N_MARKS + i for i, word in enumerate(kept)}
        self.read_again = {}


def _index(sentences: Sequence[Sequence[str]], row_of: dict[str, int]) -> Int64[ndarray, "sentence step"]:
    index = np.zeros((len(sentences), max(map(len, sentences), default=0) + 2), dtype=np.int64)
    for i, sentence in enumerate(sentences):
        if sentence:
            index[i, 0] = 1
            index[i, 1 : len(sentence) + 1] = [row_of[word] for word in sentence]
            index[i, len(sentence) + 1] = 2
    return index
