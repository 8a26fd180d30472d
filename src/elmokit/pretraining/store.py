"""A corpus as numbers: memory-mapped ids of all its tokens, and the words behind them.

A token in the vocabulary has its id there. Any other has an id from `n_words` on, into a second list of words: it is
read by its own characters, and predicted as `<UNK>`. So nothing of the text is lost but its layout, and a model that
reads characters needs one table of rows, `character_table`, instead of spelling out the corpus.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, all_at_once
from ..text.characters import character_rows
from ..text.config import TextConfig
from ..text.vocabulary import UNKNOWN, Vocabulary
from . import store_format as disk
from .corpus import find_files, fingerprints
from .store_format import StoreInfo, StoreOrigin, VocabularyOrigin
from .store_writing import write_store
from .tokenise import Progress
from .vocabulary_builder import check_marks, fitting_bytes, given_vocabulary, vocabulary_sha256

AT_ONCE = 1 << 16
SHORTEST_ROW, LONGEST_ROW = 10, 512
ROW_MARKS = 2
"""The begin and the end of a character row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenStore:
    """A corpus, or with `slice` a part of one: the same interface, the same words and ids."""

    folder: Path
    info: StoreInfo
    """Of the whole store."""
    vocabulary: Vocabulary
    ids: NDArray[np.uint16] | NDArray[np.uint32]
    """Every token's id, sentences back to back."""
    sentence_starts: NDArray[np.int64]
    """Where each sentence starts in `ids`, and the end: one more than there are sentences."""
    document_starts: NDArray[np.int64]
    """The first sentence of each document."""
    fingerprint: str
    """Of the tokens and words: equal when all that training sees is."""
    reused: bool = False
    """Whether `build_store` found it and had nothing to do."""

    @classmethod
    def open(cls, folder: Path, *, checksums: bool = True) -> TokenStore:
        """An existing store; a damaged one is refused."""
        info = disk.read_info(folder)
        disk.verify(folder, info, checksums=checksums)
        contents = "".join(file.sha256 for file in info.files)
        return cls(
            folder=folder,
            info=info,
            vocabulary=Vocabulary.read(folder / disk.VOCABULARY),
            ids=_mapped(folder / disk.IDS, np.dtype(info.dtype)),
            sentence_starts=_mapped(folder / disk.SENTENCES, np.dtype(np.int64)),
            document_starts=_mapped(folder / disk.DOCUMENTS, np.dtype(np.int64)),
            fingerprint=hashlib.sha256(contents.encode()).hexdigest(),
        )

    @property
    def n_tokens(self) -> int:
        return len(self.ids)

    @property
    def n_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    @property
    def n_documents(self) -> int:
        return len(self.document_starts)

    @property
    def n_words(self) -> int:
        """Words of the vocabulary."""
        return len(self.vocabulary)

    @property
    def n_types(self) -> int:
        """Words of the vocabulary, and all others."""
        return self.info.n_types

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Words outside the vocabulary: that of id `n_words` first."""
        return tuple(self._others())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How often each id occurs here."""
        if self.n_tokens == self.info.n_tokens:
            return np.fromfile(self.folder / disk.COUNTS, "<i8").astype(np.int64)
        counts = np.zeros(self.n_types, np.int64)
        for start in range(0, self.n_tokens, AT_ONCE << 4):
            counts += np.bincount(self.ids[start : start + (AT_ONCE << 4)], minlength=self.n_types)
        return counts

    @property
    def oov_share(self) -> float:
        """Share of tokens that are predicted as `<UNK>`."""
        (unknown,) = self.vocabulary.ids([UNKNOWN])
        n_unknown = int(self.counts[self.n_words :].sum() + self.counts[unknown])
        return n_unknown / max(1, self.n_tokens)

    def words(self) -> Iterator[str]:
        """Every word by id."""
        return chain(self.vocabulary.words, self._others())

    def sentences(self) -> Iterator[list[str]]:
        """The text again, sentence by sentence."""
        words = list(self.words())
        for first, last in pairwise(self.sentence_starts):
            yield [words[i] for i in self.ids[first:last]]

    def character_table(self, max_characters_per_token: int) -> NDArray[np.uint16]:
        """The character row of every id."""
        table = np.empty((self.n_types, max_characters_per_token), np.uint16)
        for start, words in self._word_chunks():
            table[start : start + len(words)] = character_rows(words, max_characters_per_token)
        return table

    def fitting_token_length(self, share: float = 0.999) -> int:
        """The row length at which `share` of the tokens are read whole: their bytes, and a row's begin and end."""
        n_bytes = np.empty(self.n_types, np.int64)
        for start, words in self._word_chunks():
            n_bytes[start : start + len(words)] = [len(word.encode("utf-8")) for word in words]
        longest = fitting_bytes(n_bytes, self.counts, share)
        return min(LONGEST_ROW, max(SHORTEST_ROW, longest + ROW_MARKS))

    def tail_split(self, share: float) -> int:
        """The sentence at which the last `share` of the documents begins.

        Where that is less than one document (one novel, three long files), documents are not kept whole: a share of the
        sentences is taken.
        """
        if share == 0:
            return self.n_sentences
        if self.n_sentences < 2:
            raise DataError("the text is one sentence: no part can be kept apart", hint="give more text")
        n_last = int(share * self.n_documents)
        if n_last:
            return int(self.document_starts[self.n_documents - n_last])
        return self.n_sentences - max(1, round(share * self.n_sentences))

    def slice(self, first_sentence: int, last_sentence: int) -> TokenStore:
        """The sentences from `first_sentence` up to, not including, `last_sentence`; the big array is shared."""
        assert 0 <= first_sentence <= last_sentence <= self.n_sentences
        first, last = self.sentence_starts[[first_sentence, last_sentence]]
        starts, documents = self.sentence_starts[first_sentence : last_sentence + 1], self.document_starts
        begun = documents[(documents > first_sentence) & (documents < last_sentence)] - first_sentence
        part = f"{self.fingerprint} {first_sentence} {last_sentence}"
        return dataclasses.replace(
            self,
            ids=self.ids[first:last],
            sentence_starts=starts - first if first else starts,
            document_starts=np.concatenate([np.zeros(min(1, last_sentence - first_sentence), np.int64), begun]),
            fingerprint=hashlib.sha256(part.encode()).hexdigest(),
        )

    def _others(self) -> Iterator[str]:
        with (self.folder / disk.OTHERS).open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line[:-1]

    def _word_chunks(self) -> Iterator[tuple[int, list[str]]]:
        words = self.words()
        for start in range(0, self.n_types, AT_ONCE):
            yield start, [next(words) for _ in range(min(AT_ONCE, self.n_types - start))]


def build_store(
    paths: Sequence[str],
    folder: Path,
    *,
    text: TextConfig,
    vocabulary: Vocabulary | Path | None = None,
    max_words: int = 100_000,
    min_count: int = 2,
    workers: int = 0,
    rebuild: bool = True,
    progress: Progress | None = None,
) -> TokenStore:
    """The corpus as a store in `folder`; one that is there already is used when it was made of the same text alike.

    `vocabulary` is a file or another store's, used as it is; without, the commonest words are chosen. With
    `rebuild=False` a store of another text or other settings is refused, with the name of the file that changed.
    """
    given = given_vocabulary(vocabulary) if isinstance(vocabulary, Path) else vocabulary
    if given is not None:
        check_marks(given)
    with disk.folder_beside(folder) as temporary:
        files = find_files(paths, spool=temporary / "stdin.tmp")
        origin = StoreOrigin(
            text=text,
            vocabulary=_vocabulary_origin(given, max_words=max_words, min_count=min_count),
            inputs=fingerprints(files),
        )
        existing = _existing(folder, origin, rebuild=rebuild)
        if existing is not None:
            return existing
        write_store(files, temporary, origin=origin, vocabulary=given, workers=workers, progress=progress)
        disk.take_place(temporary, folder)
    return TokenStore.open(folder, checksums=False)


def _vocabulary_origin(given: Vocabulary | None, *, max_words: int, min_count: int) -> VocabularyOrigin:
    if given is not None:
        return VocabularyOrigin(given=vocabulary_sha256(given))
    return VocabularyOrigin(max_words=max_words, min_count=min_count)


def _existing(folder: Path, origin: StoreOrigin, *, rebuild: bool) -> TokenStore | None:
    """The store that is there, if it will do; a damaged one will not."""
    if not (folder / disk.INFO).is_file():
        return None
    try:
        store = TokenStore.open(folder)
    except DataError:
        if rebuild:
            return None
        raise
    reasons = store.info.origin.differences(origin)
    if not reasons:
        return dataclasses.replace(store, reused=True)
    if rebuild:
        return None
    raise DataError(
        all_at_once(reasons, f"{folder}: made of another corpus"),
        hint="bring back the text and settings it was made of, or choose another folder",
    )


def _mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.memmap(path, dtype.newbyteorder("<"), mode="r")
