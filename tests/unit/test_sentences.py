"""Sentence spans: exact offsets for any text, whatever sentencex does with it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.text import sentences as module
from elmokit.text.sentences import split_sentences

PIECES = [
    "Aa",
    "b",
    ". ",
    "! ",
    "?",
    "\n",
    "\n\n",
    "\r\n",
    "“",
    "”",
    '"',
    "(",
    "Mr. ",
    "é",
    "😀",
    "\ud800",
    "\x00",
    "\u3000",
    "\xa0",
    "\x85",
    "。",
]
TEXTS = st.text(st.characters(), max_size=60) | st.lists(st.sampled_from(PIECES)).map("".join)


def split(text: str, language: str | None = None) -> list[str]:
    """The sentences themselves."""
    return [text[start:end] for start, end in split_sentences(text, language)]


@pytest.mark.parametrize("language", [None, "de", "ja", "unheard-of", ""])
def test_spans_ascend_are_trimmed_and_cover_all_but_whitespace(language: str | None) -> None:
    @given(TEXTS)
    def check(text: str) -> None:
        position, left = 0, ""
        for start, end in split_sentences(text, language):
            assert position <= start < end
            assert text[start:end] == text[start:end].strip()
            left += text[position:start]
            position = end
        assert not (left + text[position:]).strip()

    check()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\n ", []),
        ("Hello Mr. Smith. How are you?  Fine.", ["Hello Mr. Smith.", "How are you?", "Fine."]),
        ("One line\nbreak. Two.\n\nA title\n \nEnd", ["One line\nbreak.", "Two.", "A title", "End"]),
        ("😀 é. \ud800 Yes. No.", ["😀 é.", "\ud800 Yes.", "No."]),
        ("a\x00b. C.", ["a\x00b.", "C."]),
        ("A\u2029B", ["A", "B"]),
    ],
)
def test_english(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_other_languages() -> None:
    assert split("Am 3. Mai kam Dr. Weiß. Gut.", "de") == ["Am 3. Mai kam Dr. Weiß.", "Gut."]
    assert split("一。二。三", "ja") == ["一。", "二。", "三"]
    assert split("नमस्ते। आप कैसे हैं?", "hi") == ["नमस्ते।", "आप कैसे हैं?"]


def test_whitespace_of_several_bytes_before_an_initial() -> None:
    """sentencex 1.0.32 panics at "B\\u3000.": it steps one byte from a character of three."""
    assert split("X B\u3000. J.\xa0R.\xa0Smith went. He left.")[-1] == "He left."


def test_a_long_text_with_blank_lines_keeps_all_of_it() -> None:
    """sentencex 1.0.32 drops the text's blank lines when it is long, which would shift all that follows."""
    text = ("It was late. Nobody came.\n\n" * 5000).strip()
    assert split(text) == ["It was late.", "Nobody came."] * 5000


def test_windows_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "It was late, Mr. Brown said. Nobody came! " * 50 + "w" * 900 + " x. End."
    whole = split(text)
    monkeypatch.setattr(module, "WINDOW", 100)
    assert split(text) == whole


@pytest.mark.parametrize("piece", ["a", "a. ", "«A. ", "“", '"A ', "\n", "\n ", " ", "(A. ", "。", "\u3000"])
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    start = time.perf_counter()
    split_sentences(piece * (300_000 // len(piece)))
    assert time.perf_counter() - start < 5
