"""Where the sentences of a text are: `sentencex` finds the boundaries, this module makes it safe for any str.

The offsets are in characters of the text as given. Around sentencex 1.0 four things need care, each found by trying:

- it is Rust and takes UTF-8: a lone surrogate stands in as U+FFFD, one character for one;
- it panics at initials after whitespace of more than one byte (U+0085, U+00A0, U+3000): a space stands in for each;
- it loses text in long inputs with blank lines: it is given one paragraph at a time, and what it leaves out joins the
  sentence before;
- unclosed quotation marks cost it quadratic time: it is given windows of a long paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from .tokens import Span

WINDOW = 8_192

_PARAGRAPH_END = re.compile(r"\n\s*\n|\u2029")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")

Segment = Callable[[str, str], list[str]]


def split_sentences(text: str, language: str | None = None) -> list[Span]:
    """The (start, end) of each sentence, without the whitespace around it; all other characters are in some sentence.

    `language` is a code like "de"; English when there is none. A language that sentencex does not know gets the rules
    of a related one or of English. A blank line ends a sentence, a single line break does not.
    """
    from sentencex import segment

    spans: list[Span] = []
    for start, end in _paragraphs(text):
        paragraph = _stand_in(text[start:end])
        for first, last in _sentences(paragraph, language or "en", segment):
            spans += _trimmed(text, start + first, start + last)
    return spans


def _paragraphs(text: str) -> Iterator[Span]:
    start = 0
    for gap in _PARAGRAPH_END.finditer(text):
        yield start, gap.start()
        start = gap.end()
    yield start, len(text)


def _stand_in(text: str) -> str:
    """A text of the same length that sentencex can read."""
    if text.isascii():
        return text
    return _WIDE_SPACE.sub(" ", _SURROGATE.sub("\ufffd", text))


def _sentences(paragraph: str, language: str, segment: Segment) -> Iterator[Span]:
    """The sentences of a paragraph, window by window: the last one of a window is looked at again from its start."""
    begin = position = 0
    while position < len(paragraph):
        window = paragraph[position : position + WINDOW]
        cuts = [position + cut for cut in _cuts(window, segment(language, window))]
        if position + len(window) == len(paragraph):
            cuts.append(len(paragraph))
        for cut in cuts:
            yield begin, cut
            begin = cut
        # A window without a cut lies inside one sentence, which goes on in the next.
        position = cuts[-1] if cuts else position + len(window)


def _cuts(window: str, pieces: list[str]) -> list[int]:
    """Where the second piece starts, the third, and so on; pieces are looked for, so that a lost one does no harm."""
    cuts: list[int] = []
    start = 0
    for before, piece in pairwise(pieces):
        found = window.find(piece, start + len(before))
        if found > start:
            start = found
            cuts.append(start)
    return cuts


def _trimmed(text: str, start: int, end: int) -> list[Span]:
    sentence = text[start:end]
    end -= len(sentence) - len(sentence.rstrip())
    start += len(sentence) - len(sentence.lstrip())
    return [(start, end)] if start < end else []
