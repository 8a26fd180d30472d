"""A tokenizer in the manner of Moses, which the corpora of ELMo went through; every token is a slice of the text.

One regular expression walks the text once; a second look is taken only at words that end in a full stop. The rules:

- a symbol or punctuation mark is a token; hyphens and backticks stay in their word; two or more full stops are one;
- a comma stays between two digits; a full stop stays inside a word;
- a final full stop stays with a dotted abbreviation ("U.S."), an abbreviation of the language ("Mr."), and wherever the
  next word starts in lower case; otherwise it is a token;
- apostrophes: English splits before them ("don|'t"), Catalan, French, Irish and Italian after them ("l'|eau"), and in
  every other language each is a token;
- Han characters are single tokens except in Chinese and Japanese, Hangul syllables except in Korean.

Nothing is escaped and no hyphen is split. Deliberate differences from sacremoses 0.2, which ports the same rules:

- the ends of the text count as spaces, as in the Perl original: a line that starts with 'Tis gives "'|Tis";
- control characters separate tokens; sacremoses deletes most of them and joins what they stood between;
- combining marks, variation selectors and (non-)joiners stay with the character before them, also where sacremoses cuts
  them off; what is a letter is a matter of Python's Unicode tables, which are newer;
- where its substitutions miss an apostrophe because the last one used up what stood between ("'''", "'1'", in French
  "j'l'ai") ours split; only the English rock|'n'roll is kept as published;
- the abbreviations are our own lists, close to those of Moses in English; languages other than the eight listed get a
  generic list, not the English one.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby

from .abbreviations import abbreviations, language_key
from .tokens import Span, Tokenizer, Tokens, slices

CONTROL = r"\s\x00-\x1f\x7f-\x9f"
JOINERS = "\u200c\u200d"

APOSTROPHE_AFTER = frozenset({"ca", "fr", "ga", "it"})
HAN_IN_WORDS = frozenset({"cjk", "ja", "zh"})
HANGUL_IN_WORDS = frozenset({"cjk", "ko"})


def moses(language: str | None = None) -> Tokenizer:
    """The Moses-like tokenizer for a language code; English when there is none."""
    return MosesTokenizer(language_key(language))


@dataclass(frozen=True, slots=True)
class MosesTokenizer:
    """The rules of one language; `language` is a bare code in lower case, see `language_key`."""

    language: str

    def __call__(self, text: str, /) -> Tokens:
        """The tokens of a text."""
        token = _token_pattern(self.language, beyond_bmp=_BEYOND_BMP.search(text) is not None)
        spans = [match.span(1) for match in token.finditer(text)]
        return slices(text, self._split_stops(text, spans) if "." in text else spans)

    def _split_stops(self, text: str, spans: list[Span]) -> list[Span]:
        """Cut the final full stop off the words that do not keep it."""
        pieces: list[Span] = []
        done = 0
        for index, (start, end) in enumerate(spans):
            if text[end - 1] == "." and end - start > 1 and not self._keeps_stop(text, spans, index):
                pieces += spans[done:index]
                pieces += ((start, end - 1), (end - 1, end))
                done = index + 1
        return pieces + spans[done:]

    def _keeps_stop(self, text: str, spans: list[Span], index: int) -> bool:
        start, end = spans[index]
        if text[end - 2] == ".":
            return True
        following = text[spans[index + 1][0]] if index + 1 < len(spans) else ""
        if following.islower():
            return True
        word = text[start : end - 1]
        if "." in word and _LETTER.search(word):
            return True
        return abbreviations(self.language).keeps_stop(word, following)


_LETTER = re.compile(r"[^\W\d_]")

# Classes that reach beyond the Basic Multilingual Plane end in hundreds of ranges that `re` tries one by one, which
# makes it 3 to 8 times slower: such texts get a pattern of their own.
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")


@lru_cache(maxsize=64)
def _token_pattern(language: str, *, beyond_bmp: bool) -> re.Pattern[str]:
    """Group 1 is a token, a word with its final full stop. Nothing after a repeat can fail, so the time is linear.

    Only classes repeat possessively: before Python 3.11.5 a possessive group keeps half a match (CPython gh-106052).
    """
    letters, marks, digits = _classes(language, beyond_bmp=beyond_bmp)
    word = f"[{letters}{marks}{digits}`-]"
    starts, inner, end = _apostrophes(language, before=f"(?<=[{letters}{marks}])", letter=f"[{letters}]")
    return re.compile(
        rf"""
        [ ]?                                      # a space taken along saves one attempt in two
        (
          (?: {word}++ | (?: \.(?={word}) {starts} ) {word}*+ )
          (?: [.,']                               # one look when a word ends without any of these
              (?: (?<=\.)(?={word}) | (?<=\d,)(?=\d) {inner} )
              {word}*+
          )*
          (?: \.(?!\.) {end} )?
        | \.\.+
        | [^{CONTROL}] [{marks}]*+ (?: (?<=\u200d) [^{CONTROL}\w.,'`-] [{marks}]*+ )*     # emoji may be joined
        )
        """,
        re.VERBOSE,
    )


def _apostrophes(language: str, *, before: str, letter: str) -> tuple[str, str, str]:
    """More ways in which a word starts, goes on and ends: with an apostrophe."""
    if language == "en":
        # Moses's substitutions do not overlap: once rock'n'roll is split before 'n, the n is used up for 'roll.
        starts = rf"| {before}'{letter}(?:'(?={letter}))? | (?<=\d)'(?=s)"
        return starts, rf"| (?<=\d')(?={letter})(?!s)", ""
    if language in APOSTROPHE_AFTER:
        return "", "", rf"| {before}'(?={letter})"
    return "", "", ""


def _classes(language: str, *, beyond_bmp: bool) -> tuple[str, str, str]:
    """Letters, marks and digits as they stand in the brackets of a pattern."""
    ranges = _ranges(beyond_bmp=beyond_bmp)
    letters = ranges["letter"]
    if language in HAN_IN_WORDS:
        letters += ranges["han"]
    if language in HANGUL_IN_WORDS:
        letters += ranges["hangul"]
    return letters, ranges["mark"], ranges["digit"]


@lru_cache(maxsize=2)
def _ranges(*, beyond_bmp: bool) -> dict[str, str]:
    """The ranges of each kind of character; planes 2 and 3 are Han, and plane 14 has marks."""
    # re has no \p{L}; its \w lacks combining marks and has fractions. This scan takes 0.02 to 0.05 s, once.
    points = chain(range(0x20000), range(0xE0000, 0xE0200)) if beyond_bmp else range(0x10000)
    ranges = dict.fromkeys(("letter", "mark", "digit", "han", "hangul"), "")
    for kind, run in groupby(map(chr, points), key=_kind):
        if kind:
            characters = list(run)
            ranges[kind] += f"{characters[0]}-{characters[-1]}"
    if beyond_bmp:
        ranges["han"] += "\U00020000-\U0003ffff"
    return ranges


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "M" or character in JOINERS:
        return "mark"
    if category == "Nd":
        return "digit"
    if category[0] != "L" and category != "Nl":
        return ""
    return next((kind for kind, pattern in _SYLLABIC.items() if pattern.match(character)), "letter")


_SYLLABIC = {
    "han": re.compile("[\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
    "hangul": re.compile("[\uac00-\ud7a3]"),
}
