"""Raw text to tokens: what a tokenizer is, those that come with the library, and a wrapper for anybody's own.

A tokenizer is a callable from `str` to `Tokens`. The built-in ones keep `text[start:end] == token` for every token; a
user's callable may rewrite tokens, and a token that is not found in the text has the offset None.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import zip_longest
from typing import Protocol, cast

from ..errors import DataError, SettingsError

Span = tuple[int, int]
Offset = Span | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one text, and where each stands in it: (start, end) in characters, or None."""

    tokens: tuple[str, ...]
    offsets: tuple[Offset, ...]

    def __len__(self) -> int:
        """How many tokens there are."""
        return len(self.tokens)


class Tokenizer(Protocol):
    """A callable from text to `Tokens`."""

    def __call__(self, text: str, /) -> Tokens:
        """Tokenize one text."""
        ...


# Each names a function from a language code (or None) to a Tokenizer; adding a tokenizer is adding a line.
TOKENIZERS = {
    "moses": "elmokit.text.moses:moses",
    "whitespace": "elmokit.text.tokens:whitespace",
    "characters": "elmokit.text.tokens:characters",
}


def tokenizer(name: str | Callable[[str], object], language: str | None = None) -> Tokenizer:
    """The tokenizer of that name, or a user's callable (str -> list of str, or -> Tokens) as one."""
    if callable(name):
        return UserTokenizer(name)
    if name not in TOKENIZERS:
        raise _unknown(name)
    module, _, attribute = TOKENIZERS[name].partition(":")
    factory = cast("Callable[[str | None], Tokenizer]", getattr(import_module(module), attribute))
    return factory(language)


def slices(text: str, spans: list[Span]) -> Tokens:
    """The tokens that stand at `spans`."""
    return Tokens(tuple([text[start:end] for start, end in spans]), tuple(spans))


_WORD = re.compile(r"\S+")
_CHARACTER = re.compile(r"\S")


def split_whitespace(text: str) -> Tokens:
    """What `str.split` gives, with offsets."""
    return slices(text, [match.span() for match in _WORD.finditer(text)])


def split_characters(text: str) -> Tokens:
    """Each character that is not whitespace: the residues of a protein, the letters of a FASTA line."""
    return slices(text, [match.span() for match in _CHARACTER.finditer(text)])


def whitespace(language: str | None = None) -> Tokenizer:
    """For text that is tokenized already: the language does not matter."""
    return split_whitespace


def characters(language: str | None = None) -> Tokenizer:
    """For sequences without words: the language does not matter."""
    return split_characters


@dataclass(frozen=True, slots=True)
class UserTokenizer:
    """A user's callable as a `Tokenizer`: checks what it returns, and finds the offsets if it gives none."""

    function: Callable[[str], object]

    def __call__(self, text: str, /) -> Tokens:
        """The function's tokens, with offsets."""
        found = self.function(text)
        if isinstance(found, Tokens):
            return self._checked(found, text)
        if not isinstance(found, list | tuple):
            raise self._wrong(f"returned {_described(found)}")
        for position, token in enumerate(found):
            if not isinstance(token, str):
                raise self._wrong(f"returned {_described(token)} as token {position}")
        return Tokens(tuple(found), tuple(locate(tuple(found), text)))

    def _checked(self, found: Tokens, text: str) -> Tokens:
        if len(found.tokens) != len(found.offsets):
            raise self._wrong(f"returned Tokens with {len(found.tokens)} tokens but {len(found.offsets)} offsets")
        for position, offset in enumerate(found.offsets):
            if offset is not None and not 0 <= offset[0] <= offset[1] <= len(text):
                raise self._wrong(f"gave token {position} the offset {offset} in a text of {len(text)} characters")
        return found

    def _wrong(self, what: str) -> DataError:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return DataError(f"the tokenizer {name} {what}", hint="return a list of str, or elmokit's Tokens")


def locate(tokens: tuple[str, ...], text: str) -> list[Offset]:
    """Where each token stands, scanning left to right; None for a token that is not found from there on."""
    offsets: list[Offset] = []
    position = n_lost = 0
    for token, following in zip_longest(tokens, tokens[1:], fillvalue=""):
        start = _find(text, position, token=token, following=following, n_lost=n_lost)
        if start is None:
            offsets.append(None)
            position, n_lost = _skip_space(text, position), n_lost + 1
        else:
            position, n_lost = start + len(token), 0
            offsets.append((start, position))
    return offsets


# A rewritten token is nowhere in the text: a search without a limit for each would be quadratic.
_REACH = 4096
_SPACE = re.compile(r"\s*")


def _find(text: str, position: int, *, token: str, following: str, n_lost: int) -> int | None:
    """Where `token` starts, at or after `position`.

    Further on counts only when the token after it follows there or is not in between: else "the", written "The" here,
    would be taken from the end of the sentence and lose all that stands before it. After 64, 128, 256, ... lost tokens
    the search goes to the end of the text, to get past a long stretch that the tokenizer left out.
    """
    if not token:
        return None
    start = _next(text, position, token)
    if start is not None:
        return start
    far = n_lost >= 64 and n_lost & (n_lost - 1) == 0
    start = text.find(token, position, len(text) if far else position + _REACH + len(token))
    if start < 0:
        return None
    follows = not following or _next(text, start + len(token), following) is not None
    return start if follows or text.find(following, position, start) < 0 else None


def _next(text: str, position: int, token: str) -> int | None:
    """Where `token` starts if it is the next thing, spaces aside; it may start with a space itself."""
    for start in (position, _skip_space(text, position)):
        if text.startswith(token, start):
            return start
    return None


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _described(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _unknown(name: object) -> SettingsError:
    near = difflib.get_close_matches(str(name), TOKENIZERS, n=1)
    guess = f"did you mean '{near[0]}'? " if near else ""
    return SettingsError(f"unknown tokenizer {name!r}", hint=f"{guess}known: {', '.join(TOKENIZERS)}, or any callable")
