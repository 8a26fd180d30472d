"""The character encoder, byte for byte as published."""

from __future__ import annotations

import numpy as np
import pytest

from elmokit.text.characters import character_rows

BEGIN, END, PAD = 259, 260, 261
"""258, 259 and 260 as published, and 1 for the padding of sentences."""


@pytest.mark.parametrize(
    ("token", "published"),
    [
        pytest.param("th", [258, 116, 104, 259, 260], id="golden-of-bilm-tf"),
        pytest.param(chr(256) + "t", [258, 196, 128, 116, 259], id="golden-of-two-bytes"),
        pytest.param("", [258, 259, 260, 260, 260], id="empty-is-not-padding"),
        pytest.param("<S>", [258, 256, 259, 260, 260], id="begin-mark"),
        pytest.param("</S>", [258, 257, 259, 260, 260], id="end-mark"),
        pytest.param("<s>", [258, 60, 115, 62, 259], id="marks-are-case-sensitive"),
        pytest.param("<S> ", [258, 60, 83, 62, 259], id="marks-are-exact"),
        pytest.param("abcdef", [258, 97, 98, 99, 259], id="cut"),
        pytest.param("ab\u00fc", [258, 97, 98, 195, 259], id="cut-inside-a-character"),
        pytest.param("\x00", [258, 0, 259, 260, 260], id="nul"),
        pytest.param("\ud800", [258, 259, 260, 260, 260], id="lone-surrogate"),
        pytest.param("a\ud800\udfffb", [258, 97, 98, 259, 260], id="surrogates-are-left-out-before-the-cut"),
        pytest.param("\U0001f642", [258, 240, 159, 153, 259], id="four-bytes-cut"),
    ],
)
def test_rows_are_the_published_ones(token: str, published: list[int]) -> None:
    assert character_rows([token], 5).tolist() == [[number + 1 for number in published]]


def test_a_row_holds_48_bytes() -> None:
    """50 ids, two of which are the word's begin and end; `ü` has two bytes, so that the 48th may be half of one."""
    rows = character_rows(["ü" * 30, "x" + "ü" * 30, "y" * 48])
    assert rows[0].tolist() == [BEGIN, *[196, 189] * 24, END]
    assert rows[1, -2:].tolist() == [196, END]
    assert rows[2].tolist() == [BEGIN, *[122] * 48, END]


def test_a_token_of_ten_megabytes_is_its_beginning() -> None:
    assert np.array_equal(character_rows(["z" * 10_000_000]), character_rows(["z" * 48]))


def test_rows_do_not_depend_on_their_neighbours() -> None:
    tokens = ["", "a", "</S>", "x" * 99, "\ud800", "日本", "<S>", "a", "\x00"]
    alone = np.concatenate([character_rows([token]) for token in tokens])
    assert np.array_equal(character_rows(tokens), alone)


def test_no_token_gives_no_row() -> None:
    assert character_rows([]).shape == (0, 50)
    assert character_rows([], 3).dtype == np.int64


def test_three_characters_hold_one_byte() -> None:
    assert character_rows(["ab", "<S>", ""], 3).tolist() == [[BEGIN, 98, END], [BEGIN, 257, END], [BEGIN, END, PAD]]
