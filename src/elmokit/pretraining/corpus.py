"""The text of a corpus: which files, what is in them, and blocks of whole lines that can be worked on side by side.

- Files are unpacked by their suffix. Standard input is copied to a file first: a corpus is read twice, for its
  fingerprint and for its tokens.
- A line is cut only when it is longer than a block: at a space, or between two characters where there is none. So
  memory is bounded whatever comes, and where blocks end depends on the text alone.
- Blank lines separate documents, and so does the end of a file. Nothing else has a meaning: a heading is a line.
- A fingerprint is of the files as they are stored. It knows a corpus that was moved, and names a file that changed.
"""

from __future__ import annotations

import bz2
import contextlib
import glob
import gzip
import lzma
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, cast

from ..errors import DataError, MissingExtra, all_at_once
from ..files import sha256

STDIN = "-"
BLOCK_BYTES = 1 << 19


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of the corpus, and what messages call it."""

    path: Path
    name: str


@dataclass(frozen=True, kw_only=True)
class FileFingerprint:
    """What tells whether a file is the one that was read before."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some lines of one file, undecoded: whoever works on them decodes them too."""

    name: str
    data: bytes
    line: int
    """Number of the first line in the file."""
    offset: int
    """Of the first byte in the (unpacked) file; 0 begins a document."""
    inside_line: bool
    """Whether it begins inside a line that was too long."""
    share: float
    """How much of the corpus was read at its end."""


def find_files(paths: Sequence[str], *, spool: Path) -> tuple[TextFile, ...]:
    """The files that `paths` name, each once; standard input is copied to `spool`. All problems are told at once."""
    found: dict[Path, TextFile] = {}
    problems: list[str] = []
    if not paths:
        raise DataError("the corpus: no file is named", hint="give files, folders or globs, or - for standard input")
    for path in paths:
        files, problem = _found(path, spool)
        found.update({file.path.resolve(): file for file in files if file.path.resolve() not in found})
        problems += [problem] if problem else []
    if problems:
        raise DataError(
            all_at_once(problems, "the corpus"), hint="give files, folders or globs, or - for standard input"
        )
    return tuple(found.values())


def fingerprints(files: Iterable[TextFile]) -> tuple[FileFingerprint, ...]:
    """Read all files as they are stored."""
    return tuple(
        FileFingerprint(name=file.name, size=file.path.stat().st_size, sha256=sha256(file.path)) for file in files
    )


def differences(before: Sequence[FileFingerprint], now: Sequence[FileFingerprint]) -> list[str]:
    """What changed, a sentence for each file; nothing when the same text comes in the same order, wherever it lies."""
    if [file.sha256 for file in before] == [file.sha256 for file in now]:
        return []
    then, today = ({file.name: file for file in files} for files in (before, now))
    kept = {file.sha256 for file in before} & {file.sha256 for file in now}
    changed = [
        f"{name} changed: it had {then[name].size:,} bytes, it has {file.size:,}"
        for name, file in today.items()
        if name in then and then[name].sha256 != file.sha256
    ]
    gone = [f"{name} is gone" for name, file in then.items() if name not in today and file.sha256 not in kept]
    new = [f"{name} is new" for name, file in today.items() if name not in then and file.sha256 not in kept]
    return changed + gone + new or ["the files come in another order, or another number of times"]


def blocks(files: Sequence[TextFile], *, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """The whole corpus, in order."""
    total = sum(file.path.stat().st_size for file in files) or 1
    done = 0
    for file in files:
        yield from _file_blocks(file, size, done=done, total=total)
        done += file.path.stat().st_size


def empty_corpus(files: Sequence[TextFile]) -> DataError:
    shown = ", ".join(file.name for file in files[:3]) + (", ..." if len(files) > 3 else "")
    return DataError(f"the corpus is empty: no word in {shown}", hint="give files with text in them")


def lines(block: Block) -> list[str]:
    """The block's lines without their ends; the first may be the rest of a line, see `inside_line`."""
    try:
        text = block.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = block.line + block.data.count(b"\n", 0, error.start)
        raise DataError(
            f"{block.name}:{line}: not UTF-8: byte 0x{block.data[error.start]:02x} at offset "
            f"{block.offset + error.start} of the {'unpacked ' if _packed(block.name) else ''}file",
            hint="convert the file, for example: iconv -f latin1 -t utf-8 FILE",
        ) from error
    text = text.removeprefix("\ufeff") if block.offset == 0 else text
    return text.removesuffix("\n").split("\n")


def _found(path: str, spool: Path) -> tuple[list[TextFile], str]:
    """The files of one path, or what is wrong with it."""
    if path == STDIN:
        with spool.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return [TextFile(spool, "standard input")], ""
    place = Path(path).expanduser()
    if place.is_dir():
        return _or_problem(_in_folder(place), f"{path}: the folder has no file")
    if place.is_file():
        return [TextFile(place, path)], ""
    if place.exists():
        return [], f"{path}: not a file that can be read twice (pipe it in, and give - as its name)"
    if not glob.has_magic(path):
        return [], f"{path}: no such file or folder"
    matches = [Path(match) for match in sorted(glob.glob(str(place), recursive=True))]  # noqa: PTH207 - the path is a pattern
    inside = [file for match in matches if match.is_dir() for file in _in_folder(match)]
    files = [TextFile(match, str(match)) for match in matches if match.is_file()]
    return _or_problem(files + inside, f"{path}: no file matches")


def _or_problem(files: list[TextFile], problem: str) -> tuple[list[TextFile], str]:
    return files, "" if files else problem


def _in_folder(folder: Path) -> list[TextFile]:
    """Files of a folder and those below, by name, without hidden ones."""
    inside = sorted((path.relative_to(folder).parts, path) for path in folder.rglob("*") if path.is_file())
    return [TextFile(path, str(path)) for parts, path in inside if not any(part.startswith(".") for part in parts)]


def _file_blocks(file: TextFile, size: int, *, done: int, total: int) -> Iterator[Block]:
    rest, line, offset, inside_line = b"", 1, 0, False
    with _opened(file) as (stored, unpacked):
        more = True
        while more:
            chunk = _read(unpacked, size, file)
            more = len(chunk) == size
            if offset == 0 and not rest:
                _refuse_binary(chunk, file.name)
            data = rest + chunk
            end = _cut(data) if more else len(data)
            if end:
                share = min(1.0, (done + stored.tell()) / total)
                yield Block(
                    name=file.name, data=data[:end], line=line, offset=offset, inside_line=inside_line, share=share
                )
                line += data.count(b"\n", 0, end)
                inside_line = data[end - 1] != ord("\n")
            offset, rest = offset + end, data[end:]


def _cut(data: bytes) -> int:
    """Where a block ends: after its last line, or in a line that has no end after its last space or character."""
    for mark in (b"\n", b" ", b"\t"):
        end = data.rfind(mark) + 1
        if end:
            return end
    last = range(1, min(4, len(data)) + 1)
    return next((len(data) - i for i in last if data[-i] & 0xC0 != 0x80), len(data))  # before the last character


def _refuse_binary(chunk: bytes, name: str) -> None:
    position = chunk.find(b"\0")
    if position >= 0:
        raise DataError(
            f"{name}: not a text: it has a zero byte at offset {position}",
            hint="give plain UTF-8 text (a UTF-16 file: iconv -f utf-16 -t utf-8), or .gz, .bz2, .xz or .zst of it",
        )


_PACKED = (".gz", ".bz2", ".xz", ".zst")


def _packed(name: str) -> bool:
    return name.lower().endswith(_PACKED)


@contextlib.contextmanager
def _opened(file: TextFile) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The file as it is stored (to see how far one is), and its text."""
    with file.path.open("rb") as stored:
        opener = _opener(file.path.suffix.lower())
        if opener is None:
            yield stored, stored
        else:
            with opener(stored) as unpacked:
                yield stored, unpacked


def _opener(suffix: str) -> Callable[[BinaryIO], BinaryIO] | None:
    openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return _zstd().open if suffix == ".zst" else cast("Callable[[BinaryIO], BinaryIO] | None", openers.get(suffix))


def _zstd() -> ModuleType:
    for name in ("compression.zstd", "backports.zstd"):  # Python 3.14 has it, older ones need the package
        with contextlib.suppress(ModuleNotFoundError):
            return import_module(name)
    raise MissingExtra.named("zstd", "reading .zst files")


def _read(unpacked: BinaryIO, size: int, file: TextFile) -> bytes:
    """`size` bytes, fewer only at the end."""
    try:
        return unpacked.read(size)
    except _damage(file) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's, not the format's
            raise
        reason = str(error).rstrip(".")
        raise DataError(
            f"{file.name}: cannot be unpacked: {reason}", hint="the file is damaged, cut short, or of another kind"
        ) from error


def _damage(file: TextFile) -> tuple[type[Exception], ...]:
    """What unpacking raises for a damaged file; bz2 and gzip say it with an OSError."""
    known = (EOFError, zlib.error, lzma.LZMAError, OSError)
    return (*known, _zstd().ZstdError) if file.path.suffix.lower() == ".zst" else known
