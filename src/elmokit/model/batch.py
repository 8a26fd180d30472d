"""What a biLM takes, carries on and gives: three frozen dataclasses that PyTorch sees through (pytrees).

A `CharacterBatch` holds each *distinct* word of a batch once and an index into them, so that the costly part of ELMo,
the character CNN, runs once for each word however often it stands there. Rows 0, 1 and 2 of its table are always the
padding and the two sentence marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from ..errors import DataError
from ..text.alphabet import BEGIN_SENTENCE, END_SENTENCE, PADDING, SENTENCE_MARKS
from ..text.characters import character_rows, mark_row
from ..text.vocabulary import BEGIN, END, Vocabulary

PAD_ROW, BEGIN_ROW, END_ROW = 0, 1, 2


@dataclass(frozen=True)
class CharacterBatch:
    """A padded batch of sentences, without their marks."""

    index: Int[Tensor, "batch token"]
    """Rows of the table; 0 is padding."""
    characters: Int[Tensor, "distinct char"] | None
    words: Int[Tensor, "distinct"] | None

    @property
    def mask(self) -> Bool[Tensor, "batch token"]:
        return self.index != PAD_ROW

    @property
    def ids(self) -> Int[Tensor, "batch token char"]:
        """The whole tensor of character ids, as AllenNLP's `batch_to_ids` gives it."""
        if self.characters is None:
            raise DataError("this batch was made for a model that reads words, not characters")
        return self.characters[self.index]

    def to(self, device: torch.device | str) -> CharacterBatch:
        return pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), self)


@dataclass(frozen=True)
class BiLMState:
    """Where each row of a batch stands: the LSTM's cells and its output before the skip connection."""

    cell: Float[Tensor, "direction layer batch cell"]
    hidden: Float[Tensor, "direction layer batch dim"]

    @property
    def n_rows(self) -> int:
        return self.cell.shape[2]

    def expand(self, n_rows: int) -> BiLMState:
        """The one row of this state for each of `n_rows` sentences."""
        return BiLMState(self.cell.expand(-1, -1, n_rows, -1), self.hidden.expand(-1, -1, n_rows, -1))

    def rows(self, n_rows: int) -> BiLMState:
        """The first rows; rows that were never reached start from zero."""
        missing = max(0, n_rows - self.n_rows)
        grown = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (self.cell, self.hidden))
        return BiLMState(*(x[:, :, :n_rows] for x in grown))

    def behind(self, n_rows: int) -> BiLMState:
        """All but the first rows."""
        return BiLMState(self.cell[:, :, n_rows:], self.hidden[:, :, n_rows:])

    def beside(self, other: BiLMState) -> BiLMState:
        """These rows, then the other's."""
        both = ((self.cell, other.cell), (self.hidden, other.hidden))
        return BiLMState(*(torch.cat(parts, dim=2) for parts in both))


@dataclass(frozen=True)
class BiLMOutput:
    """Layer 0 is the token layer; the forward direction is the first half of `dim`. Padding is zero."""

    layers: Float[Tensor, "layer batch token dim"]
    mask: Bool[Tensor, "batch token"]
    state: BiLMState


for _kind in (CharacterBatch, BiLMState, BiLMOutput):
    pytree.register_dataclass(_kind)


def encode(
    sentences: Sequence[Sequence[str]], *, max_characters_per_token: int | None, vocabulary: Vocabulary | None
) -> CharacterBatch:
    """Token lists to a batch; `max_characters_per_token` is None for a model that reads no characters."""
    distinct = list(dict.fromkeys(chain.from_iterable(sentences)))
    row_of = {token: i + END_ROW + 1 for i, token in enumerate(distinct)}
    index = np.full((len(sentences), max(map(len, sentences), default=0)), PAD_ROW, dtype=np.int64)
    for i, sentence in enumerate(sentences):
        index[i, : len(sentence)] = list(map(row_of.__getitem__, sentence))
    characters = words = None
    if max_characters_per_token is not None:
        rows = character_rows([*SENTENCE_MARKS, *distinct], max_characters_per_token)
        characters = torch.from_numpy(np.pad(rows, ((1, 0), (0, 0)), constant_values=PADDING))
    if vocabulary is not None:
        words = torch.tensor([0, *(i + 1 for i in vocabulary.ids([BEGIN, END, *distinct]))])
    return CharacterBatch(torch.from_numpy(index), characters, words)


def batch_from_ids(ids: Int[Tensor, "batch token char"]) -> CharacterBatch:
    """A tensor of character ids as a batch; a row of zeros is padding."""
    n_batch, n_token, n_char = ids.shape
    marks = ids.new_tensor([mark_row(mark, n_char) for mark in (BEGIN_SENTENCE, END_SENTENCE)])
    table = torch.cat([ids.new_zeros(1, n_char), marks, ids.reshape(-1, n_char)])
    index = torch.arange(END_ROW + 1, len(table), device=ids.device).view(n_batch, n_token)
    return CharacterBatch(index * (ids != PADDING).any(dim=-1), table, None)


def with_marks(index: Int[Tensor, "batch token"]) -> Int[Tensor, "batch marked"]:
    """Put `<S>` before and `</S>` behind each sentence; an empty one stays empty, as in AllenNLP."""
    lengths = (index != PAD_ROW).sum(dim=1, keepdim=True)
    marked = torch.nn.functional.pad(index, (1, 1))
    present = lengths > 0
    marked[:, :1] = torch.where(present, BEGIN_ROW, PAD_ROW)
    return marked.scatter(1, lengths + 1, torch.where(present, END_ROW, marked.gather(1, lengths + 1)))


def without_marks(
    layers: Float[Tensor, "layer batch marked dim"], mask: Bool[Tensor, "batch marked"]
) -> tuple[Float[Tensor, "layer batch token dim"], Bool[Tensor, "batch token"]]:
    """Drop each sentence's first and last position."""
    inner = mask[:, 2:]
    return layers[:, :, 1:-1] * inner[None, :, :, None], inner
