"""Lines of a text file, whatever is in them."""

from __future__ import annotations

from io import BytesIO

import pytest

from elmokit.errors import DataError
from elmokit.text.lines import lines


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b" a \t\n\n\n", [" a \t", "", ""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", [""]),
        (b"a\x00b\n", ["a\x00b"]),
        ("a\u2028b\u0085c\x0b\x0c\n".encode(), ["a\u2028b\u0085c\x0b\x0c"]),
    ],
)
def test_lines(content: bytes, expected: list[str]) -> None:
    """Only a line feed ends a line: what `str.splitlines` would split at stays in it."""
    assert list(lines(BytesIO(content), "input.txt")) == expected


def test_a_byte_that_is_not_utf8_is_found() -> None:
    read = lines(BytesIO("grün\n".encode() + b"gr\xfcn\n"), "input.txt")
    assert next(read) == "grün"
    with pytest.raises(
        DataError, match=r"input\.txt:2: not UTF-8: byte 0xfc at offset 8 .* \(2 of the line\)"
    ) as error:
        next(read)
    assert "iconv" in error.value.hint


def test_lines_are_read_one_by_one() -> None:
    file = BytesIO(b"a\nb\n\xff\n")
    read = lines(file, "input.txt")
    assert [next(read), next(read)] == ["a", "b"]


@pytest.mark.parametrize("content", [b"\xed\xa0\x80", b"\xc3", b"\xf8\x88\x80\x80\x80", b"\xc0\x80"])
def test_what_only_looks_like_utf8_is_refused(content: bytes) -> None:
    """Surrogates, a cut character, five bytes, an overlong NUL."""
    with pytest.raises(DataError, match="offset 0"):
        list(lines(BytesIO(content), "input.txt"))
