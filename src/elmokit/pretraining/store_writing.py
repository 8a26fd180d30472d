"""From the text to a store's files, in one pass over the text and one over its ids.

Which words are in the vocabulary is known only at the end. So tokens are written as the numbers of their words in order
of first appearance, and translated afterwards: an array lookup, a hundred times faster than reading the text again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..files import sha256
from ..text.vocabulary import Vocabulary
from . import store_format as disk
from .corpus import FileFingerprint, TextFile, blocks, empty_corpus
from .store_format import StoreInfo, StoreOrigin
from .tokenise import Progress, TokenBlock, in_order, tokenise
from .vocabulary_builder import TypeTable, choose_vocabulary, final_ids

TRANSLATED_AT_ONCE = 1 << 22


@dataclass
class Counted:
    """What has been written so far."""

    n_tokens: int = 0
    n_sentences: int = 0
    n_documents: int = 0


def write_store(
    files: Sequence[TextFile],
    folder: Path,
    *,
    origin: StoreOrigin,
    vocabulary: Vocabulary | None,
    workers: int,
    progress: Progress | None,
) -> None:
    """Fill a folder, store.json last."""
    types = TypeTable(folder / "words.tmp")
    numbers = folder / "numbers.tmp"
    done = in_order(partial(tokenise, text=origin.text), blocks(files), workers=workers)
    counted = _write_numbers(done, folder, types=types, numbers=numbers, progress=progress)
    if counted.n_tokens == 0:
        raise empty_corpus(files)
    vocabulary = _chosen(types, origin) if vocabulary is None else vocabulary
    vocabulary.write(folder / disk.VOCABULARY)
    ids = final_ids(types, vocabulary, folder / disk.OTHERS)
    counts = _write_counts(folder / disk.COUNTS, ids, types, n_words=len(vocabulary))
    dtype = "uint16" if len(counts) <= 1 << 16 else "uint32"
    _translate(numbers, folder / disk.IDS, ids.astype(dtype))
    info = StoreInfo(
        version=disk.VERSION,
        elmokit=version("elmokit"),
        origin=origin,
        n_tokens=counted.n_tokens,
        n_sentences=counted.n_sentences,
        n_documents=counted.n_documents,
        n_words=len(vocabulary),
        n_types=len(counts),
        n_forgotten=types.n_forgotten,
        dtype="uint16" if dtype == "uint16" else "uint32",
        files=tuple(_fingerprint(folder / name) for name in disk.FILES),
    )
    disk.write_info(folder, info)


def _write_numbers(
    done: Iterable[TokenBlock], folder: Path, *, types: TypeTable, numbers: Path, progress: Progress | None
) -> Counted:
    """Write the numbers of all tokens, and where sentences and documents start."""
    so_far = Counted()
    with (
        numbers.open("wb") as tokens,
        (folder / disk.SENTENCES).open("wb") as sentences,
        (folder / disk.DOCUMENTS).open("wb") as documents,
    ):
        waiting = np.zeros(0, np.int64)  # a document's start is written when its first sentence is there
        for block in done:
            word_numbers = types.add(block.words, np.bincount(block.ids, minlength=len(block.words)))
            tokens.write(word_numbers[block.ids].astype("<u4").tobytes())
            sentences.write(_starts(block.lengths, so_far.n_tokens).astype("<i8").tobytes())
            waiting = np.unique(np.concatenate([waiting, block.documents + so_far.n_sentences]))
            so_far.n_tokens += len(block.ids)
            so_far.n_sentences += len(block.lengths)
            begun = waiting[waiting < so_far.n_sentences]
            waiting = waiting[waiting >= so_far.n_sentences]
            documents.write(begun.astype("<i8").tobytes())
            so_far.n_documents += len(begun)
            if progress is not None:
                progress(so_far.n_tokens, block.share)
        sentences.write(np.array([so_far.n_tokens], "<i8").tobytes())
    return so_far


def _starts(lengths: NDArray[np.int64], n_before: int) -> NDArray[np.int64]:
    return n_before + lengths.cumsum() - lengths


def _chosen(types: TypeTable, origin: StoreOrigin) -> Vocabulary:
    max_words, min_count = origin.vocabulary.max_words, origin.vocabulary.min_count
    assert max_words is not None and min_count is not None
    return choose_vocabulary(types, max_words=max_words, min_count=min_count)


def _write_counts(path: Path, ids: NDArray[np.int64], types: TypeTable, *, n_words: int) -> NDArray[np.int64]:
    """Of each id, those of words that do not occur among them."""
    counts = np.zeros(max(n_words, int(ids.max()) + 1), np.int64)
    np.add.at(counts, ids, types.counts)
    path.write_bytes(counts.astype("<i8").tobytes())
    return counts


def _translate(numbers: Path, target: Path, ids: NDArray[np.unsignedinteger]) -> None:
    little_endian = ids.astype(ids.dtype.newbyteorder("<"))
    with numbers.open("rb") as source, target.open("wb") as file:
        while part := source.read(4 * TRANSLATED_AT_ONCE):
            file.write(little_endian[np.frombuffer(part, "<u4")].tobytes())


def _fingerprint(path: Path) -> FileFingerprint:
    return FileFingerprint(name=path.name, size=path.stat().st_size, sha256=sha256(path))
