"""The table of words that were read lately: right answers first, then how often the CNN is spared."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.kernels.word_table import N_MARKS, TableStats, WordTable

STABLE = settings(derandomize=True, deadline=None)

DIM = 3


class Computed:
    """Vectors that spell their word's number, and what they were asked for, call by call."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, words: Sequence[str]) -> Tensor:
        self.asked.append(list(words))
        return torch.tensor([0.0, -1.0, -2.0, *map(number, words)])[:, None].expand(-1, DIM).clone()


def number(word: str) -> float:
    return 10.0 + int(word)


def table_of(n_words: int) -> WordTable:
    """One with room for so many words beside the marks."""
    table = WordTable(Computed(), TableStats(), max_bytes=(N_MARKS + n_words) * DIM * 4)
    assert table.capacity == N_MARKS + n_words
    return table


def words(*numbers: int) -> list[str]:
    return [str(i) for i in numbers]


def read(table: WordTable, *sentences: list[str]) -> list[str]:
    """Read them, demand that the answer is right, and return the words that had to be computed."""
    computed: Computed = table.compute  # type: ignore[assignment]
    computed.asked.clear()
    vectors, index = table.read(sentences)
    assert index.shape == (len(sentences), max(map(len, sentences), default=0) + 2)
    found = vectors[torch.from_numpy(index)]
    for row, sentence in zip(found, sentences, strict=True):
        expected = [-1.0, *map(number, sentence), -2.0] if sentence else []
        assert row[:, 0].tolist() == expected + [0.0] * (len(row) - len(expected))
        assert (row == row[:, :1]).all()
    return [word for call in computed.asked for word in call]


# --- right answers ---------------------------------------------------------------------------------------------------


def test_rows_are_the_words_between_their_marks() -> None:
    table = table_of(10)
    vectors, index = table.read([words(5, 6, 5), [], words(6)])
    assert index.tolist() == [[1, 3, 4, 3, 2], [0, 0, 0, 0, 0], [1, 4, 2, 0, 0]]
    assert vectors[:5, 0].tolist() == [0, -1, -2, 15, 16]


@pytest.mark.parametrize("n_sentences", [0, 1, 3])
def test_sentences_without_words_are_rows_of_padding(n_sentences: int) -> None:
    table = table_of(2)
    assert read(table, *[[]] * n_sentences) == []
    assert table.stats.asked == 0


BATCHES = st.lists(st.lists(st.lists(st.integers(0, 30).map(str), max_size=8), max_size=4), max_size=10)


@STABLE
@given(n_words=st.integers(0, 24), batches=BATCHES)
def test_answers_are_right_whatever_was_read_before(n_words: int, batches: list[list[list[str]]]) -> None:
    """A full table that kept half its words had no room left for a batch of more words than the other half."""
    table = table_of(n_words)
    given: list[tuple[Tensor, Tensor, Tensor]] = []
    for sentences in batches:
        read(table, *sentences)
        vectors, index = table.read(sentences)
        rows = torch.from_numpy(index)
        given.append((vectors, rows, vectors[rows]))
        assert len(table.vectors) <= table.capacity
        assert table.vectors[:N_MARKS, 0].tolist() == [0, -1, -2]
    for vectors, rows, expected in given:
        assert torch.equal(vectors[rows], expected), "what was given out may still be in use"


def test_a_batch_that_fills_the_table_finds_room() -> None:
    """Of ten words, five that were read again stayed, and a batch of eight others was written over the table's end."""
    table = table_of(10)
    for _ in range(2):
        read(table, words(*range(6)))
    assert read(table, words(*range(20, 28))) == words(*range(20, 28))
    assert read(table, words(*range(20, 28))) == []


def test_what_was_given_out_is_not_overwritten_when_room_is_made() -> None:
    table = table_of(4)
    vectors, index = table.read([words(1, 2, 3, 4)])
    before = vectors.clone()
    for first in range(10, 50, 3):
        read(table, words(*range(first, first + 3)))
    assert torch.equal(vectors, before)
    assert vectors[torch.from_numpy(index[0]), 0].tolist() == [-1, 11, 12, 13, 14, -2]


def test_a_word_that_cannot_be_computed_leaves_a_table_that_works() -> None:
    """Memory ran out, say: the batch is read again in halves."""
    table = table_of(6)
    read(table, words(1, 2))
    compute = table.compute

    def fails(_: Sequence[str]) -> Tensor:
        raise torch.OutOfMemoryError

    for asked in (words(3, 4), words(5, 6, 7, 8, 9)):  # beside the others, and in place of others
        table.compute = fails
        with pytest.raises(torch.OutOfMemoryError):
            table.read([asked])
        table.compute = compute
        assert read(table, asked[:2]) == asked[:2]
        read(table, asked)


# --- how much is spared ----------------------------------------------------------------------------------------------


def test_a_word_is_computed_once() -> None:
    table = table_of(10)
    assert read(table, words(1, 2, 1), words(2, 3)) == words(1, 2, 3)
    assert read(table, words(3, 4, 1)) == words(4)
    assert read(table, words(4, 2)) == []


def test_the_hit_rate_counts_each_word_of_a_batch_once() -> None:
    table = table_of(10)
    assert table.stats.hit_rate == 0
    read(table, words(1, 1, 1, 2))
    assert (table.stats.asked, table.stats.known) == (2, 0)
    read(table, words(1, 2, 2, 3), words(3, 1))
    assert (table.stats.asked, table.stats.known) == (5, 2)
    assert table.stats.hit_rate == 0.4


def test_it_grows_as_it_fills_and_no_further_than_it_may() -> None:
    table = table_of(20)
    sizes = []
    for first in range(0, 20, 2):
        read(table, words(first, first + 1))
        sizes.append(len(table.vectors))
    assert sizes[0] < 10 and sizes == sorted(sizes) and sizes[-1] == table.capacity
    assert len(set(sizes)) <= 5, "it doubles: each growth is a copy"


def test_words_that_were_read_again_stay_when_room_is_made() -> None:
    table = table_of(8)
    read(table, words(1, 2, 3, 4))
    assert read(table, words(1, 2)) == []
    read(table, words(5, 6, 7, 8))
    assert read(table, words(9)) == words(9), "the table was full"
    assert read(table, words(1, 2, 9)) == []
    assert read(table, words(3)) == words(3)


def test_half_the_table_is_kept_at_most() -> None:
    """Else a table of words that were all read twice would make room at each new word."""
    table = table_of(9)
    for _ in range(2):
        read(table, words(*range(9)))
    read(table, words(20))
    assert len(table.row_of) == table.capacity // 2 + 1


def test_of_words_read_again_the_most_recent_stay() -> None:
    """The commonest word of a text is the first to be read again: it went, as if that had been the last time."""
    table = table_of(9)
    read(table, words(*range(9)))
    for i in range(9):
        read(table, words(0, i))
    read(table, words(20))
    assert read(table, words(0, 8)) == []


def test_what_was_read_again_is_forgotten_once_room_was_made() -> None:
    """A word stays for what was read since: else the words of the first page would stay for a whole book."""
    table = table_of(6)
    for _ in range(2):
        read(table, words(1, 2))
    read(table, words(10, 11, 12, 13))
    read(table, words(20, 21, 22, 23))
    assert {"1", "2"} < set(table.row_of)
    read(table, words(30, 31, 32, 33))
    assert read(table, words(1, 2)) == words(1, 2)


def test_a_batch_larger_than_the_table_is_answered_without_entering_it() -> None:
    table = table_of(4)
    read(table, words(1, 2))
    known = dict(table.row_of)
    assert read(table, words(1, *range(10, 15))) == words(1, *range(10, 15))
    assert table.row_of == known
    assert read(table, words(1, 2)) == []


def test_a_table_without_room_is_no_error() -> None:
    table = WordTable(Computed(), TableStats(), max_bytes=1)
    assert table.capacity == N_MARKS
    for _ in range(2):
        assert read(table, words(1, 2)) == words(1, 2)
