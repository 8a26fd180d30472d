"""Training batches out of a token store, and where the reader stands.

Sentences are shuffled anew in each epoch and laid out as streams, `rows` side by side: forward as `<S> w1 .. wn`, each
token to predict the next and wn to predict `</S>`; backward, beside it, as `</S> wn .. w1`. Both cover the same
sentences in a window, so that their distinct words are shared. As in the published training a direction never reads
the mark that it predicts.

With `carry` a row's state goes on from sentence to sentence. With `zero` it is put back wherever a sentence begins:
the rows are the same and nothing is padded, and yet each sentence is run on its own.

The order is a function of (seed, epoch) and a position is three numbers, so that a run goes on exactly where it was.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree

from ..model.batch import CharacterBatch
from ..model.config import BiLMConfig
from .store import TokenStore

BEGIN, END, UNKNOWN = 0, 1, 2
"""Ids of the marks: every vocabulary that is built or accepted begins with them."""


@dataclass(frozen=True)
class Stream:
    """One direction's window: rows of the batch's table to read, words to predict, and where sentences begin."""

    index: Int[Tensor, "row time"]
    targets: Int[Tensor, "row time"]
    begins: Bool[Tensor, "row time"]


@dataclass(frozen=True)
class LMBatch:
    """What one step reads. `table.index` is the forward stream's."""

    table: CharacterBatch
    streams: tuple[Stream, ...]

    @property
    def n_words(self) -> int:
        return self.streams[0].index.numel()

    def to(self, device: torch.device) -> LMBatch:
        return pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device, non_blocking=True), self)

    def pinned(self) -> LMBatch:
        """In memory that a GPU reads by itself, while the program goes on."""
        return pytree.tree_map_only(Tensor, Tensor.pin_memory, self)


for _kind in (Stream, LMBatch):
    pytree.register_dataclass(_kind)


@dataclass(frozen=True)
class Position:
    """Where a reader stands: the next window is number `window` of block `block` of epoch `epoch`."""

    epoch: int = 0
    block: int = 0
    window: int = 0


class Batches:
    """The endless sequence of windows over a store; rank `rank` of `world` reads its share of the rows."""

    def __init__(
        self,
        store: TokenStore,
        config: BiLMConfig,
        *,
        rows: int,
        steps: int,
        block_tokens: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.store = store
        self.rows, self.steps, self.seed = rows * world, steps, seed
        self.own = slice(rank * rows, (rank + 1) * rows)
        self.directions = config.directions
        self.lengths = np.diff(store.sentence_starts)
        self.block_tokens = max(block_tokens, self.rows * steps)
        self.characters = None
        if config.characters is not None:
            self.characters = store.character_table(config.characters.max_characters_per_token)
        self.reads_words = config.words is not None
        self.n_words = store.n_words

    def with_rows(self, rows: int) -> Batches:
        """The same text in fewer or more rows, for one process."""
        other = copy.copy(self)
        other.rows, other.own = rows, slice(0, rows)
        return other

    @property
    def tokens_per_epoch(self) -> int:
        """Predictions in each direction."""
        return int(self.lengths.sum()) + len(self.lengths)

    def __call__(self, position: Position) -> Iterator[tuple[LMBatch, Position]]:
        """Windows from `position` on, each with the position behind it."""
        while True:
            blocks = self._blocks(position.epoch)
            for number in range(position.block, len(blocks)):
                layout = self._layout(blocks[number])
                n_windows = -(-(layout[0].shape[1] - 1) // self.steps)
                for window in range(position.window, n_windows):
                    ahead = Position(position.epoch, number, window + 1)
                    yield self._window(layout, window), ahead
                position = Position(position.epoch, number + 1)
            position = Position(position.epoch + 1)

    def _blocks(self, epoch: int) -> list[NDArray[np.int64]]:
        """The epoch's sentences in their order, cut into pieces that are laid out together."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.lengths))
        ends = np.cumsum(self.lengths[order] + 1)
        cuts = np.searchsorted(ends, np.arange(self.block_tokens, ends[-1], self.block_tokens))
        blocks = np.split(order, np.unique(cuts))
        return [block for block in blocks if len(block)]

    def _layout(self, sentences: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """(row, time) ids to read for each direction; a row's last column is only to be predicted."""
        lengths, starts = self.lengths[sentences], self.store.sentence_starts[sentences]
        begins = np.cumsum(lengths + 1) - (lengths + 1)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = np.repeat(begins, lengths) + 1 + within
        layouts = []
        for direction in self.directions:
            forward = direction == "forward"
            offsets = within if forward else np.repeat(lengths, lengths) - 1 - within
            stream = np.full(lengths.sum() + len(lengths) + 1, BEGIN if forward else END, dtype=np.int64)
            stream[places] = self.store.ids[np.repeat(starts, lengths) + offsets]
            layouts.append(self._in_rows(stream))
        return tuple(layouts)

    def _in_rows(self, stream: NDArray[np.int64]) -> NDArray[np.int64]:
        """The stream cut into rows of equal length, each with the first token of the next behind it."""
        length = max(1, (len(stream) - 1) // self.rows)
        rows = np.arange(self.rows)[:, None] * length + np.arange(length + 1)
        return stream[rows % len(stream)][self.own]

    def _window(self, layout: tuple[NDArray[np.int64], ...], window: int) -> LMBatch:
        first = window * self.steps
        read = [rows[:, :-1][:, first : first + self.steps] for rows in layout]
        following = [rows[:, 1:][:, first : first + self.steps] for rows in layout]
        distinct, numbers = self._numbered(np.stack(read))
        index = torch.from_numpy(numbers + 1)
        streams = (
            Stream(
                index=index[i],
                targets=torch.from_numpy(self._targets(following[i], direction)),
                begins=torch.from_numpy(read[i] == (BEGIN if direction == "forward" else END)),
            )
            for i, direction in enumerate(self.directions)
        )
        return LMBatch(self._table(distinct, index[0]), tuple(streams))

    def _numbered(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The distinct ids, and each id's number among them: as `np.unique`, without sorting."""
        there = np.zeros(self.store.n_types, dtype=bool)
        there[ids] = True
        distinct = np.flatnonzero(there)
        number_of = np.empty(len(there), dtype=np.int64)
        number_of[distinct] = np.arange(len(distinct))
        return distinct, number_of[ids]

    def _targets(self, following: NDArray[np.int64], direction: str) -> NDArray[np.int64]:
        """What comes next: where a sentence begins, the one before it ended."""
        begin, end = (BEGIN, END) if direction == "forward" else (END, BEGIN)
        known = np.where(following < self.n_words, following, UNKNOWN)
        return np.where(known == begin, end, known)

    def _table(self, distinct: NDArray[np.int64], index: Tensor) -> CharacterBatch:
        """Row 0 is padding, which no window has: it keeps the numbering of every other batch."""
        characters = words = None
        if self.characters is not None:
            rows = self.characters[distinct].astype(np.int64)
            characters = torch.from_numpy(np.pad(rows, ((1, 0), (0, 0))))
        if self.reads_words:
            known = np.where(distinct < self.n_words, distinct, UNKNOWN)
            words = torch.from_numpy(np.pad(known + 1, (1, 0)))
        return CharacterBatch(index, characters, words)
