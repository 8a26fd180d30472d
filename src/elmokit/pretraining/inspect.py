"""What a corpus is, before a model is trained on it: its size, its words, and what one would rather know beforehand.

One pass on all cores, in bounded memory: words are counted as a token store counts them, and equal lines are counted by
their hashes, all of them up to `SAMPLED_LINES` different ones and an even sample of them above.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..text.config import TextConfig
from .corpus import Block, TextFile, blocks, empty_corpus, find_files, lines
from .languages import language, script
from .line_checks import markup, wrong_encoding
from .tokenise import Progress, TokenBlock, in_order, tokenise
from .vocabulary_builder import TypeTable, fitting_bytes

VOCABULARY_SIZES = (10_000, 20_000, 50_000, 100_000, 200_000)
COVERED_SHARES = (0.95, 0.98, 0.99)
PUBLISHED_BYTES = 48
"""What a character row of the published models holds."""
FITTING_SHARE = 0.999
SAMPLED_LINES = 500_000
WORDS_LOOKED_AT = 5_000
"""The commonest words tell script and language."""

# Tokens up to which a recipe has enough capacity: a small model on much text stops learning, a large one on little
# learns it by heart.
RECIPES = (("tiny-cpu", 5_000_000), ("small", 200_000_000), ("medium", 600_000_000))
LARGEST_RECIPE = "original"


@dataclass(frozen=True, kw_only=True)
class Suspects:
    """Lines that look wrong in one way."""

    n_lines: int = 0
    first: str | None = None
    """file:line of the first one."""
    example: str = ""
    """What was found there."""

    def __add__(self, later: Suspects) -> Suspects:
        earliest = self if self.n_lines else later
        return Suspects(n_lines=self.n_lines + later.n_lines, first=earliest.first, example=earliest.example)


@dataclass(frozen=True, kw_only=True)
class CorpusReport:
    """What `inspect_corpus` found. Shares are of tokens where nothing else is said."""

    n_files: int
    n_tokens: int
    n_types: int
    n_sentences: int
    n_paragraphs: int
    """Lines with text."""
    n_documents: int
    coverage: tuple[tuple[int, float], ...]
    """(words, share) for the commonest words, so many of them."""
    words_to_cover: tuple[tuple[float, int], ...]
    """(share, words): how many of the commonest words cover a share."""
    over_limit_share: float
    """Tokens that a row of the published 50 characters would cut."""
    fitting_token_length: int
    """Row length, begin and end among it, in which 99.9 % are whole."""
    duplicate_share: float
    """Share of the paragraphs that are equal to an earlier one; a good estimate in a large corpus."""
    markup: Suspects
    wrong_encoding: Suspects
    script: str
    """That of most words; empty without letters."""
    script_share: float
    language: str | None
    """None when it is not plain."""
    recipe: str
    """Which bundled recipe such an amount of text suits."""
    minutes: float | None
    """One pass over the text, at the words per second that were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BlockFacts:
    tokens: TokenBlock
    hashes: NDArray[np.uint64]
    markup: Suspects
    wrong_encoding: Suspects


def inspect_corpus(
    paths: Sequence[str],
    text: TextConfig,
    *,
    words_per_second: float | None = None,
    workers: int = 0,
    progress: Progress | None = None,
) -> CorpusReport:
    """Read a corpus once and report on it; `words_per_second` is how fast a model is trained here."""
    with tempfile.TemporaryDirectory() as folder:
        files = find_files(paths, spool=Path(folder, "stdin"))
        types = TypeTable(Path(folder, "words"))
        totals = _Totals(types)
        for facts in in_order(partial(_facts, text=text), blocks(files), workers=workers):
            totals.add(facts)
            if progress is not None:
                progress(totals.n_tokens, facts.tokens.share)
        return _report(files, totals, words_per_second)


def recommended_recipe(n_tokens: int) -> str:
    return next((name for name, most in RECIPES if n_tokens < most), LARGEST_RECIPE)


class _Totals:
    """What the blocks add up to."""

    def __init__(self, types: TypeTable) -> None:
        self.types = types
        self.n_tokens = self.n_sentences = self.n_paragraphs = self.n_documents = 0
        self.markup = self.wrong_encoding = Suspects()
        self.duplicates = DuplicateLines()
        self._document_waits = False

    def add(self, facts: _BlockFacts) -> None:
        block = facts.tokens
        self.types.add(block.words, np.bincount(block.ids, minlength=len(block.words)))
        self.n_tokens += len(block.ids)
        self.n_sentences += len(block.lengths)
        self.n_paragraphs += len(facts.hashes)
        self.markup += facts.markup
        self.wrong_encoding += facts.wrong_encoding
        self.duplicates.add(facts.hashes)
        self._add_documents(block)

    def _add_documents(self, block: TokenBlock) -> None:
        """A document is begun by its first sentence, which may stand in a later block than the blank line before it."""
        n_sentences = len(block.lengths)
        begun = set(block.documents.tolist()) | ({0} if self._document_waits else set())
        self._document_waits = n_sentences in begun
        self.n_documents += sum(sentence < n_sentences for sentence in begun)


class DuplicateLines:
    """Which share of lines repeats an earlier one, by hashes in bounded memory.

    When there are too many, only hashes that end in one more zero bit are kept: all lines that are equal stay or go
    together, so that the share among those that stay is an unbiased one.
    """

    def __init__(self, most: int = SAMPLED_LINES) -> None:
        self.most = most
        self._seen: Counter[int] = Counter()
        self._mask = 0

    def add(self, hashes: NDArray[np.uint64]) -> None:
        self._seen.update(hashes[hashes & np.uint64(self._mask) == 0].tolist())
        while len(self._seen) > self.most:
            self._mask = 2 * self._mask + 1
            self._seen = Counter({line: n for line, n in self._seen.items() if line & self._mask == 0})

    @property
    def share(self) -> float:
        n_lines = self._seen.total()
        return (n_lines - len(self._seen)) / max(1, n_lines)


def _facts(block: Block, *, text: TextConfig) -> _BlockFacts:
    paragraphs = [(block.line + i, line) for i, line in enumerate(lines(block)) if line and not line.isspace()]
    digests = (hashlib.blake2b(line.strip().encode("utf-8"), digest_size=8).digest() for _, line in paragraphs)
    return _BlockFacts(
        tokens=tokenise(block, text=text),
        hashes=np.frombuffer(b"".join(digests), "<u8"),
        markup=_suspects(block, paragraphs, markup),
        wrong_encoding=_suspects(block, paragraphs, wrong_encoding),
    )


def _suspects(block: Block, paragraphs: Iterable[tuple[int, str]], check: Callable[[str], str]) -> Suspects:
    found = [(number, sign) for number, line in paragraphs if (sign := check(line))]
    if not found:
        return Suspects()
    number, sign = found[0]
    return Suspects(n_lines=len(found), first=f"{block.name}:{number}", example=sign)


def _report(files: Sequence[TextFile], totals: _Totals, words_per_second: float | None) -> CorpusReport:
    types, n_tokens = totals.types, totals.n_tokens
    if n_tokens == 0:
        raise empty_corpus(files)
    covered = np.sort(types.counts)[::-1].cumsum()
    n_bytes = np.fromiter((len(word.encode("utf-8")) for word in types.words()), np.int64, types.n_types)
    common = types.commonest(WORDS_LOOKED_AT)
    script_name, script_share = script(common)
    return CorpusReport(
        n_files=len(files),
        n_tokens=n_tokens,
        n_types=types.n_types,
        n_sentences=totals.n_sentences,
        n_paragraphs=totals.n_paragraphs,
        n_documents=totals.n_documents,
        coverage=tuple((n, float(covered[min(n, len(covered)) - 1] / n_tokens)) for n in VOCABULARY_SIZES),
        words_to_cover=tuple((share, int(np.searchsorted(covered, share * n_tokens)) + 1) for share in COVERED_SHARES),
        over_limit_share=float(types.counts[n_bytes > PUBLISHED_BYTES].sum() / n_tokens),
        fitting_token_length=fitting_bytes(n_bytes, types.counts, FITTING_SHARE) + 2,
        duplicate_share=totals.duplicates.share,
        markup=totals.markup,
        wrong_encoding=totals.wrong_encoding,
        script=script_name,
        script_share=script_share,
        language=language(common),
        recipe=recommended_recipe(n_tokens),
        minutes=n_tokens / words_per_second / 60 if words_per_second else None,
    )
