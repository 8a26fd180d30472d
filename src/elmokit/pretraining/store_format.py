"""What a token store is on disk: a folder of plain arrays and word lists, and `store.json`, which vouches for them.

    store.json      written last: how the store was made, from which files, and the checksum of each file below
    vocab.txt       the predicted words by id, the marks first when they were chosen here
    others.txt      all other words; their ids go on where the vocabulary's end
    ids.bin         every token's id, sentences back to back; uint16 when that holds them all, else uint32
    sentences.bin   int64: where each sentence starts in ids.bin, and the end
    documents.bin   int64: the sentence that begins each document
    counts.bin      int64: how often each word occurs, vocabulary first

Numbers are little-endian. A store is made in a folder beside, which takes its place when it is complete.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import DataError, SettingsError, all_at_once
from ..files import sha256
from ..settings import from_plain, to_plain
from ..text.config import TextConfig
from .corpus import FileFingerprint, differences

VERSION = 1
INFO = "store.json"
VOCABULARY, OTHERS = "vocab.txt", "others.txt"
IDS, SENTENCES, DOCUMENTS, COUNTS = "ids.bin", "sentences.bin", "documents.bin", "counts.bin"
FILES = (VOCABULARY, OTHERS, IDS, SENTENCES, DOCUMENTS, COUNTS)

REBUILD = "delete the folder, and it will be built again"


@dataclass(frozen=True, kw_only=True)
class VocabularyOrigin:
    """How the vocabulary was come by: chosen by two bounds, or given."""

    max_words: int | None = None
    min_count: int | None = None
    given: str | None = None
    """The given words' sha256."""


@dataclass(frozen=True, kw_only=True)
class StoreOrigin:
    """All that decides what a store holds."""

    text: TextConfig
    vocabulary: VocabularyOrigin
    inputs: tuple[FileFingerprint, ...]

    def differences(self, now: StoreOrigin) -> list[str]:
        """Why a store of this origin does not serve for another, file by file and setting by setting."""
        then, today = _settings(self), _settings(now)
        settings = [f"{key} was {then[key]!r}, is {today[key]!r}" for key in then if then[key] != today[key]]
        return settings + differences(self.inputs, now.inputs)


@dataclass(frozen=True, kw_only=True)
class StoreInfo:
    """What store.json holds."""

    version: int
    elmokit: str
    """Version of the library that wrote it."""
    origin: StoreOrigin
    n_tokens: int
    n_sentences: int
    n_documents: int
    n_words: int
    n_types: int
    n_forgotten: int
    """Words that were dropped from memory while counting, see `vocabulary_builder`."""
    dtype: Literal["uint16", "uint32"]
    files: tuple[FileFingerprint, ...]


def write_info(folder: Path, info: StoreInfo) -> None:
    (folder / INFO).write_text(json.dumps(to_plain(info), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_info(folder: Path) -> StoreInfo:
    """What an existing store says of itself."""
    path = folder / INFO
    if not path.is_file():
        raise DataError(f"{folder}: not a token store: {INFO} is missing", hint=REBUILD)
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        version = plain["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: damaged: not the JSON that was written", hint=REBUILD) from error
    if version != VERSION:
        raise DataError(f"{folder}: a store of version {version}, this elmokit reads {VERSION}", hint=REBUILD)
    try:
        return from_plain(StoreInfo, plain, where=str(path))
    except SettingsError as error:
        raise DataError(error.message, hint=REBUILD) from error


def verify(folder: Path, info: StoreInfo, *, checksums: bool = True) -> None:
    """Refuse a store whose files are not those that were written."""
    written = {file.name: file for file in info.files}
    problems = [f"{name} is not listed in {INFO}" for name in FILES if name not in written]
    problems += [problem for file in info.files if (problem := _problem(folder, file, checksums=checksums))]
    if problems:
        raise DataError(all_at_once(problems, f"{folder}: damaged"), hint=REBUILD)


@contextlib.contextmanager
def folder_beside(target: Path) -> Iterator[Path]:
    """A temporary folder for what may take the target's place; it is gone afterwards."""
    _refuse_to_replace(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def take_place(temporary: Path, target: Path) -> None:
    """Put a complete store where it belongs, and nothing else of the folder it was made in."""
    for path in temporary.iterdir():
        if path.name not in (*FILES, INFO):
            path.unlink()
    if target.exists():
        shutil.rmtree(target)
    temporary.rename(target)


def _refuse_to_replace(target: Path) -> None:
    """Nobody's other files are deleted for a store."""
    if not target.exists():
        return
    if not target.is_dir() or (any(target.iterdir()) and not (target / INFO).is_file()):
        raise DataError(f"{target}: exists, and is not a token store", hint="choose another folder, or move this one")


def _problem(folder: Path, file: FileFingerprint, *, checksums: bool) -> str:
    path = folder / file.name
    if not path.is_file():
        return f"{file.name} is missing"
    size = path.stat().st_size
    if size != file.size:
        return f"{file.name} has {size:,} bytes, {file.size:,} were written"
    if checksums and sha256(path) != file.sha256:
        return f"{file.name} is not what was written (its checksum differs)"
    return ""


def _settings(origin: StoreOrigin) -> dict[str, object]:
    text, vocabulary = to_plain(origin.text), to_plain(origin.vocabulary)
    return {f"text.{key}": text[key] for key in text} | {f"vocabulary.{key}": vocabulary[key] for key in vocabulary}
