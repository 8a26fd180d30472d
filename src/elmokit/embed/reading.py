"""What a user hands in, made into sentences: tokens with their places, whether text or token lists came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import DataError
from ..text.config import TextConfig
from ..text.sentences import split_sentences
from ..text.tokens import Tokenizer, Tokens

Sentence = str | Sequence[str]


@dataclass(frozen=True)
class Item:
    """One input: its tokens, and how many of them each of its sentences has."""

    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int] | None, ...] | None
    lengths: tuple[int, ...]

    def sentences(self) -> Iterator[tuple[str, ...]]:
        start = 0
        for length in self.lengths:
            yield self.tokens[start : start + length]
            start += length


def items(inputs: Iterable[Sentence], config: TextConfig, tokenizer: Tokenizer) -> Iterator[Item]:
    """Texts are cut as the model's config says; token lists are taken as they are."""
    if isinstance(inputs, str):
        raise DataError(f"expected a list of sentences, found one text: {inputs[:40]!r}", hint="embed([text])")
    for number, item in enumerate(inputs):
        yield _from_text(item, config, tokenizer) if isinstance(item, str) else _from_tokens(item, number)


def _from_text(text: str, config: TextConfig, tokenizer: Callable[[str], Tokens]) -> Item:
    spans = split_sentences(text, config.language) if config.split_sentences else [(0, len(text))]
    tokens: list[str] = []
    offsets: list[tuple[int, int] | None] = []
    lengths = []
    for start, end in spans:
        cut = tokenizer(text[start:end])
        tokens += cut.tokens
        offsets += [place and (place[0] + start, place[1] + start) for place in cut.offsets]
        lengths.append(len(cut.tokens))
    return Item(tuple(tokens), tuple(offsets), tuple(lengths))


def _from_tokens(sentence: Iterable[str], number: int) -> Item:
    if not isinstance(sentence, Iterable):
        raise DataError(f"sentence {number}: expected a text or a list of tokens, found {sentence!r:.60}")
    tokens = tuple(sentence)
    wrong = next((i for i, token in enumerate(tokens) if not isinstance(token, str)), None)
    if wrong is not None:
        raise DataError(
            f"sentence {number}, token {wrong}: expected a text, found {tokens[wrong]!r:.60}",
            hint="a sentence is a text or a list of tokens",
        )
    return Item(tokens, None, (len(tokens),))
