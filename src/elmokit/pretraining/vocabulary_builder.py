"""Which words there are, how often, and which of them are predicted.

A `TypeTable` numbers words as they first appear. All are written to a file; a dict holds those that may come again.
When it holds more than `MAX_WORDS_IN_MEMORY`, the rarest are forgotten until half are left, as word2vec does. A
forgotten word that comes again gets a new number and counts from one: rare words lose counts, and may be listed twice.
Below that size, which some billion words of running text have, nothing is forgotten and all counts are exact.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, all_at_once
from ..text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

MARKS = (BEGIN, END, UNKNOWN)
CORPUS_UNKNOWN = "<unk>"
"""How benchmark corpora write a word that was taken out."""

MAX_WORDS_IN_MEMORY = 4_000_000

# Words that no vocabulary chosen here has: the marks, their like, and a line that vocabulary files leave out.
_NEVER_CHOSEN = frozenset((*MARKS, CORPUS_UNKNOWN, "!!!MAXTERMID"))


class TypeTable:
    """The words of a text with their counts, numbered as they first appear; `path` is the file that lists them."""

    def __init__(self, path: Path, *, max_words: int = MAX_WORDS_IN_MEMORY) -> None:
        self.path = path
        self.max_words = max_words
        self.n_types = 0
        self.n_forgotten = 0
        self._numbers: dict[str, int] = {}
        self._counts = np.zeros(1 << 16, np.int64)
        path.write_bytes(b"")

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts[: self.n_types]

    def add(self, words: Sequence[str], counts: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Count these words; returns the number of each."""
        found = list(map(self._numbers.get, words))
        self._append(list(dict.fromkeys(word for word, number in zip(words, found, strict=True) if number is None)))
        numbers = np.array(
            [self._numbers[word] if number is None else number for word, number in zip(words, found, strict=True)],
            np.uint32,
        )
        np.add.at(self._counts, numbers, counts)
        if len(self._numbers) > self.max_words:
            self._forget()
        return numbers

    def words(self) -> Iterator[str]:
        """All words by number, from the file."""
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line[:-1]

    def commonest(self, n: int, *, min_count: int = 1) -> list[tuple[str, int]]:
        """The `n` commonest words with their counts; of equally common ones those that came first."""
        order = np.argsort(-self.counts, kind="stable")
        rank = np.empty(self.n_types, np.int64)
        rank[order] = np.arange(self.n_types)
        # Forgotten words have a rank too, but only those in memory can be named.
        often = [item for item in self._numbers.items() if self._counts[item[1]] >= min_count]
        often.sort(key=lambda item: rank[item[1]])
        return [(word, int(self._counts[number])) for word, number in often[:n]]

    def _append(self, words: list[str]) -> None:
        self._numbers.update({word: self.n_types + i for i, word in enumerate(words)})
        self.n_types += len(words)
        if self.n_types > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(self.n_types, np.int64)])
        with self.path.open("ab") as file:
            file.write("".join(f"{word}\n" for word in words).encode("utf-8"))

    def _forget(self) -> None:
        """Drop words of one occurrence, then of two, ..., until half the room is free."""
        before = len(self._numbers)
        in_memory = np.fromiter(self._numbers.values(), np.int64, before)
        rarity = np.sort(self._counts[in_memory])
        most = rarity[before - self.max_words // 2 - 1]  # what is as rare as the commonest that has to go, goes
        self._numbers = {word: number for word, number in self._numbers.items() if self._counts[number] > most}
        self.n_forgotten += before - len(self._numbers)


def choose_vocabulary(types: TypeTable, *, max_words: int, min_count: int) -> Vocabulary:
    """The marks, then the commonest words: `max_words` in all, each seen `min_count` times or more."""
    common = types.commonest(max_words + len(_NEVER_CHOSEN), min_count=min_count)
    chosen = [word for word, _ in common if word not in _NEVER_CHOSEN]
    return Vocabulary((*MARKS, *chosen[: max_words - len(MARKS)]))


def given_vocabulary(path: Path) -> Vocabulary:
    """A vocabulary file, used as it is."""
    if not path.is_file():
        raise DataError(f"{path}: no such vocabulary file", hint="one word a line, <S>, </S> and <UNK> among them")
    vocabulary = Vocabulary.read(path)
    check_marks(vocabulary, str(path))
    return vocabulary


def check_marks(vocabulary: Vocabulary, where: str = "the vocabulary") -> None:
    """Refuse a vocabulary without the words that every biLM predicts."""
    missing = [mark for mark in MARKS if mark not in vocabulary]
    if missing:
        written = {mark.lower() for mark in missing} & set(vocabulary.words)
        hint = f"{', '.join(sorted(written))} must be in capitals" if written else "add a line for each, at the top"
        raise DataError(all_at_once([f"the mark {mark} is missing" for mark in missing], where), hint=hint)
    if vocabulary.words[: len(MARKS)] != MARKS:
        raise DataError(
            f"{where}: begins with {', '.join(vocabulary.words[: len(MARKS)])}, expected {', '.join(MARKS)}",
            hint="put the three marks on the first lines, in this order",
        )


def predicted_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """What a token of the corpus is predicted as; a word that is not in here is `<UNK>`.

    `<S>` and `</S>` in running text are no borders of a sentence, and are words outside the vocabulary.
    """
    ids = {word: i for i, word in enumerate(vocabulary.words)}
    ids.setdefault(CORPUS_UNKNOWN, ids[UNKNOWN])
    del ids[BEGIN], ids[END]
    return ids


def final_ids(types: TypeTable, vocabulary: Vocabulary, others: Path) -> NDArray[np.int64]:
    """The id of each numbered word; those outside the vocabulary get ids after it, and are written to `others`."""
    known = predicted_ids(vocabulary)
    ids = np.empty(types.n_types, np.int64)
    n_types = len(vocabulary)
    with others.open("w", encoding="utf-8", newline="\n") as file:
        for number, word in enumerate(types.words()):
            ids[number] = known.get(word, n_types)
            if ids[number] == n_types:
                file.write(f"{word}\n")
                n_types += 1
    return ids


def vocabulary_sha256(vocabulary: Vocabulary) -> str:
    return hashlib.sha256("\n".join(vocabulary.words).encode("utf-8")).hexdigest()


def fitting_bytes(n_bytes: NDArray[np.int64], counts: NDArray[np.int64], share: float) -> int:
    """The fewest bytes in which `share` of the tokens fit whole, of words of `n_bytes` that occur `counts` times."""
    needed = math.ceil(round(share * int(counts.sum()), 6))  # 0.999 of 1,000 is 999, not a rounding error more
    return int(np.searchsorted(np.bincount(n_bytes, weights=counts).cumsum(), needed))
