"""The Moses-like tokenizer: its rules one by one, any text, time, and agreement with sacremoses if installed."""

from __future__ import annotations

import re
import time
import unicodedata
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elmokit.text.abbreviations import WORDS, abbreviations
from elmokit.text.moses import moses

TEXTS = st.text(st.characters() | st.sampled_from(list("aBs1.,'-` \n\u0301\u200d中")), max_size=60)


def tokens(text: str, language: str | None = None) -> str:
    """The tokens, with "|" between them."""
    return "|".join(moses(language)(text).tokens)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world!", "Hello|,|world|!"),
        ("(She) said: “No”;", "(|She|)|said|:|“|No|”|;"),
        ("well-known -- word--word -", "well-known|--|word--word|-"),
        ("a_b c/d 50% #x `y`", "a|_|b|c|/|d|50|%|#|x|`y`"),
        ("1,000,000 a,b 5,b ,5 5,", "1,000,000|a|,|b|5|,|b|,|5|5|,"),
        ("Wait... what.. a...b ....", "Wait|...|what|..|a|...|b|...."),
        ("3.14 is 5. And .5", "3.14|is|5|.|And|.5"),
        ("www.site.org", "www.site.org"),
    ],
)
def test_punctuation(text: str, expected: str) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The end. Next one.", "The|end|.|Next|one|."),
        ("Mr. Smith met Dr. No.", "Mr.|Smith|met|Dr.|No|."),
        ("No. 5 is No. Really", "No.|5|is|No|.|Really"),
        ("J. R. Smith", "J.|R.|Smith"),
        ("the U.S. Army, the U.S.", "the|U.S.|Army|,|the|U.S."),
        ("approx. half. Then", "approx.|half|.|Then"),
        ("(see fig.) I.", "(|see|fig|.|)|I."),
        ("it's.", "it|'s|."),
        ("1.2.", "1.2|."),
    ],
)
def test_final_full_stops(text: str, expected: str) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "don't we'll John's", "don|'t|we|'ll|John|'s"),
        ("en", "dogs' bones the 1990's 5'10", "dogs|'|bones|the|1990|'s|5|'|10"),
        ("en", "rock'n'roll 6'b", "rock|'n'roll|6'b"),
        ("en", "'Tis 'x' ''", "'|Tis|'|x|'|'|'"),
        ("en", "the cat’s", "the|cat|’|s"),
        ("fr", "l'eau d'Or aujourd'hui '", "l'|eau|d'|Or|aujourd'|hui|'"),
        ("it", "dell'arte '68", "dell'|arte|'|68"),
        ("de", "wie geht's", "wie|geht|'|s"),
    ],
)
def test_apostrophes_are_a_matter_of_language(language: str, text: str, expected: str) -> None:
    assert tokens(text, language) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "Am 3. Mai, z. B. Ludwig XIV. Hier.", "Am|3.|Mai|,|z.|B.|Ludwig|XIV.|Hier|."),
        ("de_AT", "Bd. Eins", "Bd.|Eins"),
        ("fr", "MM. Dupont", "MM.|Dupont"),
        ("es", "la Sra. Ruiz", "la|Sra.|Ruiz"),
        ("it", "il Sig. Rossi", "il|Sig.|Rossi"),
        ("pt-BR", "a Sra. Silva", "a|Sra.|Silva"),
        ("nl", "de heer Mr. Jansen", "de|heer|Mr.|Jansen"),
        ("sv", "kl. Åtta", "kl.|Åtta"),
        ("pl", "Dr. Nowak. Tak.", "Dr.|Nowak|.|Tak|."),
        ("ru", "А. С. Пушкин.", "А.|С.|Пушкин|."),
    ],
)
def test_abbreviations_are_a_matter_of_language(language: str, text: str, expected: str) -> None:
    assert tokens(text, language) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("hi", "नमस्ते। हिन्दी में", "नमस्ते|।|हिन्दी|में"),
        ("en", "e\u0301te\u0301 na\u0308ive", "e\u0301te\u0301|na\u0308ive"),
        ("th", "กำลังมา", "กำลังมา"),
        ("ar", "مَرحبًا، يا", "مَرحبًا|،|يا"),
        ("fa", "می\u200cخواهم", "می\u200cخواهم"),
        ("en", "中国abc 한국", "中|国|abc|한|국"),
        ("zh", "中国，日本。", "中国|，|日本|。"),
        ("ja", "私は日本", "私は日本"),
        ("ko", "한국어 좋다. 中国", "한국어|좋다|.|中|国"),
        ("en", "I ❤\ufe0f 👩\u200d👧!", "I|❤\ufe0f|👩\u200d👧|!"),
        ("en", "𝒜𝒷 𐐀𐐨 x²", "𝒜𝒷|𐐀𐐨|x|²"),
    ],
)
def test_scripts(language: str, text: str, expected: str) -> None:
    assert tokens(text, language) == expected


def test_control_characters_separate_tokens() -> None:
    assert tokens("a\x00b\x1bc\x85d\x7fe") == "a|b|c|d|e"


def test_a_lone_surrogate_is_a_token() -> None:
    assert tokens("a\ud800b") == "a|\ud800|b"


@pytest.mark.parametrize("language", ["en", "fr", "de", "zh", "ko"])
def test_tokens_are_slices_in_order_and_nothing_else_is_left_out(language: str) -> None:
    tokenize = moses(language)

    @given(TEXTS)
    def check(text: str) -> None:
        found = tokenize(text)
        left, position = "", 0
        for token, offset in zip(found.tokens, found.offsets, strict=True):
            assert offset is not None and offset[0] >= position and text[offset[0] : offset[1]] == token
            left += text[position : offset[0]]
            position = offset[1]
        assert all(unicodedata.category(left_out) == "Cc" or left_out.isspace() for left_out in left + text[position:])

    check()


@given(TEXTS)
def test_a_character_beyond_the_bmp_changes_nothing_before_it(text: str) -> None:
    """Such texts take another pattern, for speed; the rules are the same."""
    assert tokens(f"{text} !") == tokens(f"{text} 😀").replace("😀", "!")


@given(st.lists(st.sampled_from(["The", "U.S.", "end.", "it's", "(x)", "1,5", "..."]), min_size=1))
def test_how_much_space_stands_between_words_does_not_matter(words: list[str]) -> None:
    assert tokens(" ".join(words)) == tokens("\n  \t".join(words))


@pytest.mark.parametrize("language", WORDS)
def test_abbreviations_are_words_without_their_full_stop(language: str) -> None:
    assert not [word for word in abbreviations(language).words if word.endswith(".") or "," in word or "'" in word]


PIECES = [
    "a",
    ".",
    "a.",
    "'",
    "a'",
    "a'b",
    "1,",
    "1'b",
    " ",
    "\n",
    "\u0301",
    "a. ",
    "a. A ",
    "\x00",
    "-",
    "..a",
    "😀\u200d",
    "中",
]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("language", ["en", "fr"])
def test_no_text_takes_more_than_linear_time(piece: str, language: str) -> None:
    """Quadratic would be minutes at this length, not a second."""
    tokenize = moses(language)
    tokenize("a😀")
    start = time.perf_counter()
    tokenize(piece * (200_000 // len(piece)))
    assert time.perf_counter() - start < 5


SENTENCES = [
    "He said: \"I don't know, it's 5,000 miles (or more) away...\"",
    "The so-called U.S. army of the 1950's isn't dead! It's 3.5% up.",
    "O'Neill, the dogs' owner, paid $1,200.50 [sic] to A. B. Jones & Sons -- on 5/6.",
    "Visit http://a.example.org/x?y=1 or mail me@example.org; thanks... Yes. `quoted' ''x''-",
    "naïve café «été» — 10–12 °C ½ x² №5 €7 α.β. γ.",
]


@pytest.mark.parametrize("language", ["en", "fr", "de", "es", "xx"])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_agrees_with_sacremoses(sentence: str, language: str) -> None:
    assert list(moses(language)(sentence).tokens) == sacremoses(sentence, language)


def test_agrees_with_sacremoses_on_english_abbreviations_and_apostrophes() -> None:
    sentence = "Mr. Brown, Jr. of St. Louis Corp. met Mt. No. 10 on Jan. 5; rock'n'roll, No. Yes."
    assert list(moses("en")(sentence).tokens) == sacremoses(sentence, "en")


@pytest.mark.parametrize("language", ["en", "xx"])
def test_agrees_with_sacremoses_inside_a_line(language: str) -> None:
    """Between two words, so that the ends of the text play no part, without the apostrophes it misses."""

    @given(st.text("abS15.,'-`\" (!\u00e9", max_size=30))
    def check(text: str) -> None:
        assume(not re.search(r",,|,'|'[^a-zA-Z]?'|',", text))
        assert list(moses(language)(f"X {text} X").tokens) == sacremoses(f"X {text} X", language)

    check()


@lru_cache
def _reference(language: str) -> Any:
    return pytest.importorskip("sacremoses").MosesTokenizer(language)


def sacremoses(text: str, language: str) -> list[str]:
    """What sacremoses makes of the text."""
    tokens: list[str] = _reference(language).tokenize(text, escape=False)
    return tokens
