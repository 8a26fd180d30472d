"""What nobody reads is at least recognised, by its first bytes or by the names in the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmokit.errors import UnknownFormat, WeightsError
from elmokit.weights.unknown import refuse


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b"\x80\x02}q\x00.", "a Python pickle"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"BZh91AY", "a bzip2 archive"),
        (b"\xfd7zXZ\x00", "an xz archive"),
        (b"\x89HDF\r\n\x1a\n\x00", "a damaged HDF5 file"),
        (b"\n <?xml?>", "a web page or XML"),
        (b'{"a": 1}', "a JSON file"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00" + b'{"a"', "safetensors without"),
        ("Übermäßig".encode(), "a text"),
        (b"\x00\x01\x02", "it begins"),
    ],
)
def test_a_file_is_known_by_its_beginning(content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(content)
    error = refuse(path)
    assert isinstance(error, UnknownFormat)
    assert error.message.startswith(f"{path}: ") and what in error.message and error.hint


def test_an_empty_file_is_of_no_format(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    error = refuse(tmp_path / "x")
    assert type(error) is WeightsError and "empty" in error.message


def test_only_the_beginning_of_a_huge_file_is_read(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)
    assert "not a weights file" in refuse(tmp_path / "x").message


def test_a_folder_is_told_by_the_names_in_it(tmp_path: Path) -> None:
    assert "it is empty" in refuse(tmp_path).message
    for name in ("a.txt", "b.txt", "c.txt", "d.txt", "e.txt", "f.txt"):
        (tmp_path / name).touch()
    assert refuse(tmp_path).message.endswith("found a.txt, b.txt, c.txt, d.txt, e.txt, ...")


def test_in_a_folder_the_file_called_weights_is_the_culprit(tmp_path: Path) -> None:
    (tmp_path / "a.h5").mkdir()
    (tmp_path / "weights.hdf5").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert "weights.hdf5: a Git LFS pointer" in refuse(tmp_path).message
