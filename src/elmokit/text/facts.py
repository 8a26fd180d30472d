"""What a model would not see of a text: one look at tokens that every command can report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .alphabet import SENTENCE_MARKS


@dataclass(frozen=True, kw_only=True)
class TextFacts:
    """Counts over a text's tokens."""

    n_sentences: int
    n_tokens: int
    n_distinct: int
    n_over_limit: int
    """Tokens of more bytes than a character row holds: the model reads their beginning only."""
    n_with_unknown_bytes: int
    """Tokens with characters that UTF-8 cannot hold: the model does not read those characters."""
    n_sentence_marks: int
    """Tokens equal to `<S>` or `</S>`: the model reads them as a sentence's border."""
    longest: str
    """The token of most bytes, cut to what a message can show."""

    @property
    def share_over_limit(self) -> float:
        return self.n_over_limit / max(1, self.n_tokens)


def text_facts(sentences: Iterable[Sequence[str]], max_characters_per_token: int = 50) -> TextFacts:
    """Read the sentences once; memory grows with the distinct tokens."""
    counts: dict[str, int] = {}
    n_sentences = 0
    for sentence in sentences:
        n_sentences += 1
        for token in sentence:
            counts[token] = counts.get(token, 0) + 1
    n_bytes = {token: len(token.encode("utf-8", "ignore")) for token in counts}
    n_whole = {token: len(token.encode("utf-8", "surrogatepass")) for token in counts}
    longest = max(counts, key=n_whole.__getitem__, default="")
    return TextFacts(
        n_sentences=n_sentences,
        n_tokens=sum(counts.values()),
        n_distinct=len(counts),
        n_over_limit=sum(n for token, n in counts.items() if n_bytes[token] > max_characters_per_token - 2),
        n_with_unknown_bytes=sum(n for token, n in counts.items() if n_bytes[token] < n_whole[token]),
        n_sentence_marks=sum(counts.get(mark, 0) for mark in SENTENCE_MARKS),
        longest=longest[:60],
    )
