"""Lines of a text file: UTF-8, and where it is not, exactly where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ..errors import DataError


def lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Each line without its end; a byte order mark at the beginning is no text."""
    n_bytes = 0
    for number, raw in enumerate(file, start=1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            found = raw[error.start : error.start + 1].hex()
            raise DataError(
                f"{name}:{number}: not UTF-8: byte 0x{found} at offset {n_bytes + error.start} of the file "
                f"({error.start} of the line)",
                hint="convert the file, for example: iconv -f latin1 -t utf-8 FILE",
            ) from error
        n_bytes += len(raw)
        yield (line.removeprefix("\ufeff") if number == 1 else line).removesuffix("\n").removesuffix("\r")
