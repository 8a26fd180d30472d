"""Vocabulary files as published: one word a line, its number its id, and nothing stripped that could be a word."""

from __future__ import annotations

from pathlib import Path

import pytest

import elmokit
from elmokit import DataError
from elmokit.text.vocabulary import Vocabulary

from reference.checkpoints import SHAPES, write_checkpoint

WORDS = Vocabulary(("<S>", "</S>", "<UNK>", "the", "Ärger", "日本"))
WORD_MODEL = next(case for case in SHAPES if case.id == "words")


def test_ids_are_line_numbers_and_unknown_words_are_unk() -> None:
    assert WORDS.ids(["the", "<S>", "日本", "nowhere", "The"]) == [3, 0, 5, 2, 2]
    assert len(WORDS) == 6 and "Ärger" in WORDS and "ärger" not in WORDS


def test_without_unk_an_unknown_word_is_an_error_and_not_padding() -> None:
    """bilm-tf gave it the id of padding: the word vanished in silence."""
    with pytest.raises(DataError, match="neither 'nowhere' nor <UNK>") as caught:
        Vocabulary(("<S>", "</S>", "the")).ids(["the", "nowhere"])
    assert "<UNK>" in caught.value.hint


def test_of_a_word_that_stands_twice_the_later_line_counts() -> None:
    twice = Vocabulary(("a", "b", "a"))
    assert twice.ids(["a"]) == [2] and len(twice) == 3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a\nb\n", ("a", "b")),
        (b"a\nb", ("a", "b")),
        (b"a\r\nb\r\n", ("a", "b")),
        ("\u3000\n\u00a0\n x \n".encode(), ("\u3000", "\u00a0", " x ")),
        ("a\u2028b\nc\x0bd\x85\n".encode(), ("a\u2028b", "c\x0bd\x85")),
        (b"a\n\nb\n", ("a", "", "b")),
        (b"<S>\n!!!MAXTERMID\na\n", ("<S>", "a")),
        (b"", ()),
    ],
)
def test_lines_are_words_as_they_stand(content: bytes, words: tuple[str, ...], tmp_path: Path) -> None:
    """Odd spaces are words of real vocabularies; only a line's end is no part of it."""
    (tmp_path / "vocab.txt").write_bytes(content)
    assert Vocabulary.read(tmp_path / "vocab.txt").words == words


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for words in (WORDS, Vocabulary((" ", "", "\u3000", "a\tb", "🙂")), Vocabulary(("",))):
        words.write(tmp_path / "vocab.txt")
        assert Vocabulary.read(tmp_path / "vocab.txt") == words


def test_a_file_that_is_not_utf8_is_refused_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("über\nnaïve\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"vocab\.txt: not UTF-8 at byte 0") as caught:
        Vocabulary.read(tmp_path / "vocab.txt")
    assert caught.value.hint


# --- beside a model that reads words ---------------------------------------------------------------------------------


def test_the_vocabulary_beside_the_weights_is_found_by_its_size(tmp_path: Path) -> None:
    weights = write_checkpoint(tmp_path, WORD_MODEL)[1]
    (tmp_path / "a_vocab_of_another_model.txt").write_text("<S>\n</S>\n")
    (tmp_path / "vocab.txt").rename(tmp_path / "en_Vocab_2019.txt")
    (tmp_path / "old_vocab.txt").mkdir()
    found = elmokit.read_weights(weights).vocabulary
    assert found is not None and found.words[:4] == ("<S>", "</S>", "<UNK>", "the")


def test_a_vocabulary_of_another_size_is_refused_with_both_numbers(tmp_path: Path) -> None:
    weights = write_checkpoint(tmp_path, WORD_MODEL)[1]
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n")
    with pytest.raises(DataError, match=r"the model has 15 words, vocab\.txt has 2") as caught:
        elmokit.read_weights(weights)
    assert caught.value.hint


def test_a_vocabulary_without_the_sentence_marks_is_refused(tmp_path: Path) -> None:
    weights = write_checkpoint(tmp_path, WORD_MODEL)[1]
    (tmp_path / "vocab.txt").write_text("".join(f"word{i}\n" for i in range(15)))
    with pytest.raises(DataError, match="has no <S> or no </S>"):
        elmokit.read_weights(weights)


def test_a_word_model_without_a_vocabulary_loads_and_says_so_when_it_should_read(tmp_path: Path) -> None:
    weights = write_checkpoint(tmp_path, WORD_MODEL)[1]
    (tmp_path / "vocab.txt").unlink()
    bilm = elmokit.load_bilm(weights)
    with pytest.raises(DataError, match="reads words and has no vocabulary") as caught:
        bilm.encode([["the"]])
    assert "vocab.txt" in caught.value.hint


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path) -> None:
    """A Windows editor's file had no <S>."""
    (tmp_path / "vocab.txt").write_bytes(b"\xef\xbb\xbf<S>\n</S>\n")
    assert Vocabulary.read(tmp_path / "vocab.txt").words == ("<S>", "</S>")


def test_a_file_that_cannot_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        Vocabulary.read(tmp_path)
