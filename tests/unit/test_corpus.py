"""Files of any kind to blocks of lines: what is found, what is refused and how it is named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import DataError, MissingExtra
from elmokit.pretraining import corpus
from elmokit.pretraining.corpus import TextFile, blocks, differences, find_files, fingerprints, lines
from elmokit.pretraining.tokenise import LONGEST_WORD, in_order, tokenise
from elmokit.text.config import TextConfig

PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TEXT = "The river bank flooded.\r\n\nDas Ufer war überschwemmt.\n".encode()
WORDS = TextConfig(tokenizer="whitespace")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def write(name: str, content: bytes = b"text\n") -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return name


def names(*paths: str) -> list[str]:
    return [file.name for file in find_files(paths, spool=Path("spool"))]


def text_of(*paths: str) -> list[str]:
    return [line for block in blocks(find_files(paths, spool=Path("spool"))) for line in lines(block)]


def read(content: bytes, size: int = 8) -> tuple[list[list[str]], list[int]]:
    """The sentences of a text, and which begin a document, when its blocks have that size."""
    Path("read.txt").write_bytes(content)
    sentences: list[list[str]] = []
    documents: set[int] = set()
    for block in blocks([TextFile(Path("read.txt"), "read.txt")], size=size):
        done = tokenise(block, text=WORDS)
        documents |= {int(start) + len(sentences) for start in done.documents}
        tokens = iter([done.words[i] for i in done.ids])
        sentences += [[next(tokens) for _ in range(length)] for length in done.lengths]
    return sentences, sorted(start for start in documents if start < len(sentences))


# What a path names


def test_a_folder_is_read_recursively_in_order_and_without_hidden_files() -> None:
    for name in ("c/b.txt", "c/a.txt", "c/a/z.txt", "c/.hidden", "c/.git/config", "c/b/.x"):
        write(name)
    assert names("c") == ["c/a/z.txt", "c/a.txt", "c/b.txt"]


def test_a_glob_takes_files_and_folders() -> None:
    for name in ("c/b.txt", "c/a.txt", "c/a.md", "c/d/e.txt"):
        write(name)
    assert names("c/*.txt") == ["c/a.txt", "c/b.txt"]
    assert names("c/*") == ["c/a.md", "c/a.txt", "c/b.txt", "c/d/e.txt"]
    assert names("c/**/*.txt") == ["c/a.txt", "c/b.txt", "c/d/e.txt"]


def test_a_file_whose_name_looks_like_a_glob_is_a_file() -> None:
    assert names(write("a[1].txt")) == ["a[1].txt"]


def test_paths_are_read_in_the_order_given_and_each_file_once() -> None:
    write("b.txt")
    write("a.txt")
    assert names("b.txt", "./b.txt", "*.txt") == ["b.txt", "a.txt"]


def test_all_that_is_missing_is_named_at_once() -> None:
    Path("empty/.hidden").mkdir(parents=True)
    with pytest.raises(DataError) as error:
        names("missing.txt", "empty", "*.none")
    for problem in ("missing.txt: no such file or folder", "empty: the folder has no file", "*.none: no file matches"):
        assert problem in error.value.message


def test_no_path_at_all() -> None:
    with pytest.raises(DataError, match="no file is named"):
        names()


def test_standard_input_is_copied_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT)))
    assert names("-") == ["standard input"]
    assert Path("spool").read_bytes() == TEXT


# What is in a file


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_files_are_read_like_plain_ones(suffix: str) -> None:
    packed = write(f"a.txt{suffix}", PACKERS[suffix](TEXT))
    assert text_of(packed) == text_of(write("a.txt", TEXT)) == TEXT.decode().removesuffix("\n").split("\n")


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_packed_file_is_named(suffix: str, damage: str) -> None:
    content = PACKERS[suffix](TEXT)[:-12] if damage == "cut" else b"plain text"
    with pytest.raises(DataError, match=rf"a\.txt{suffix}: cannot be unpacked: "):
        text_of(write(f"a.txt{suffix}", content))


def test_zstandard_is_read_or_the_extra_is_named() -> None:
    try:
        content = corpus._zstd().compress(TEXT)
    except MissingExtra as error:
        assert "elmokit[zstd]" in error.hint
        with pytest.raises(MissingExtra, match=r"reading \.zst files"):
            text_of(write("a.txt.zst"))
        return
    assert text_of(write("a.txt.zst", content)) == text_of(write("a.txt", TEXT))
    with pytest.raises(DataError, match="cannot be unpacked"):
        text_of(write("b.txt.zst", content[:-4]))


@pytest.mark.parametrize("content", [b"\x7fELF\x00\x01", "Text".encode("utf-16")])
def test_a_binary_file_is_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=r"c/b\.bin: not a text: it has a zero byte") as error:
        text_of(write("c/a.txt"), write("c/b.bin", content))
    assert "utf-16" in error.value.hint


@pytest.mark.parametrize("size", [8, 1000])
def test_text_that_is_not_utf8_is_found_whatever_block_it_is_in(size: int) -> None:
    file = TextFile(Path(write("a.txt", "grün\ngrün\ngr".encode() + b"\xfcn\n")), "a.txt")
    with pytest.raises(DataError, match=r"a\.txt:3: not UTF-8: byte 0xfc at offset 14 of the file") as error:
        [lines(block) for block in blocks([file], size=size)]
    assert "iconv" in error.value.hint


def test_the_offset_in_a_packed_file_is_that_of_its_text() -> None:
    with pytest.raises(DataError, match=r"a\.gz:2: .* offset 4 of the unpacked file"):
        text_of(write("a.gz", gzip.compress(b"abc\n\xff\n")))


def test_a_byte_order_mark_is_no_text() -> None:
    assert text_of(write("a.txt", b"\xef\xbb\xbfa\n\xef\xbb\xbfb")) == ["a", "\ufeffb"]


# Blocks


@given(st.text(st.sampled_from("aé漢😀 \n\t\r"), max_size=80), st.integers(4, 40))
def test_blocks_hold_all_the_text_whole_characters_and_the_right_places(text: str, size: int) -> None:
    content = text.encode()
    Path("a.txt").write_bytes(content)
    found = list(blocks([TextFile(Path("a.txt"), "a.txt")], size=size))
    assert b"".join(block.data for block in found) == content
    for block in found:
        block.data.decode()
        assert content[block.offset :].startswith(block.data)
        assert block.line == content[: block.offset].count(b"\n") + 1
        assert block.inside_line == (block.offset > 0 and content[block.offset - 1 : block.offset] != b"\n")
        assert len(block.data) <= 2 * size + 4
    assert not found or found[-1].share == 1


@given(st.text(st.sampled_from("ab \n\n"), max_size=60), st.integers(8, 30))
def test_sentences_and_documents_do_not_depend_on_the_blocks(text: str, size: int) -> None:
    """Lines here are shorter than a block: only those are never cut."""
    text = re.sub("[^\n]{8}", lambda match: match[0][:7] + "\n", text)
    assert read(text.encode(), size) == read(text.encode(), 1000)


def test_documents_are_separated_by_blank_lines_and_files() -> None:
    sentences, documents = read(b"\n\na\nb\n \t\n\nc\n\n", 1000)
    assert (sentences, documents) == ([["a"], ["b"], ["c"]], [0, 2])


def test_the_rest_of_a_long_line_is_no_blank_line() -> None:
    sentences, documents = read(b"one two three four \n      \nfive", 8)
    assert [token for sentence in sentences for token in sentence] == ["one", "two", "three", "four", "five"]
    assert documents == [0, len(sentences) - 1]


def test_a_very_long_token_is_kept_by_its_beginning() -> None:
    ((sentence,), _) = read(b"x" * 5000 + b" end", 10_000)
    assert sentence == ["x" * LONGEST_WORD, "end"]


def test_lines_are_split_into_sentences_where_the_model_does() -> None:
    file = TextFile(Path(write("a.txt", b"He came. She left Mr. Smith.\n\x01\n")), "a.txt")
    (block,) = blocks([file])
    assert tokenise(block, text=TextConfig(split_sentences=True)).lengths.tolist() == [3, 5]
    assert tokenise(block, text=TextConfig()).lengths.tolist() == [8]


def test_work_on_several_processes_comes_in_order() -> None:
    numbers = list(range(40))
    assert list(in_order(str, numbers, workers=2)) == list(in_order(str, numbers, workers=1)) == list(map(str, numbers))


def test_an_error_in_a_worker_is_the_error() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_order(int, ["1", "x", "3"], workers=2))


# Fingerprints


def taken(*paths: str):
    return fingerprints(find_files(paths, spool=Path("spool")))


def test_a_corpus_that_was_moved_is_the_same() -> None:
    before = taken(write("a/a.txt", b"a"), write("a/b.txt", b"b"))
    assert differences(before, taken(write("b/a.txt", b"a"), write("b/c.txt", b"b"))) == []


def test_every_change_names_its_file() -> None:
    before = taken(write("a.txt", b"a"), write("b.txt", b"b"), write("c.txt", b"c"))
    now = taken(write("a.txt", b"a"), write("b.txt", b"bb"), write("d.txt", b"d"))
    assert differences(before, now) == [
        "b.txt changed: it had 1 bytes, it has 2",
        "c.txt is gone",
        "d.txt is new",
    ]


def test_another_order_is_another_corpus() -> None:
    write("a.txt", b"a")
    write("b.txt", b"b")
    (difference,) = differences(taken("a.txt", "b.txt"), taken("b.txt", "a.txt"))
    assert "order" in difference
