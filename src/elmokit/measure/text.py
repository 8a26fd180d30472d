"""What is run: the sentences of a text in input order, cut into batches of one size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from ..errors import DataError, SettingsError
from ..text.lines import lines
from ..text.tokens import Tokens

BUNDLED = Path(__file__).parent / "sentences.txt"
"""English prose, written for this: a sentence a line, as long and as short as in books and newspapers."""

Sentence = tuple[str, ...]


def read_sentences(path: Path | None, tokenizer: Callable[[str], Tokens]) -> list[Sentence]:
    """The sentences of a file, or of the bundled text."""
    name = BUNDLED if path is None else path
    try:
        with name.open("rb") as file:
            found = [tokenizer(line).tokens for line in lines(file, str(name))]
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror})", hint="give a text file with --text") from error
    sentences = [sentence for sentence in found if sentence]
    if not sentences:
        raise DataError(f"{name}: holds no sentence", hint="give a text of one sentence a line")
    return sentences


def whole_batches(sentences: Sequence[Sentence], size: int, *, max_words: int) -> list[list[Sentence]]:
    """Consecutive batches of that size, at least one, and no more than reach `max_words`; what is left is not run."""
    if size > len(sentences):
        raise SettingsError(
            f"the text has {len(sentences):,} sentences, fewer than one batch of {size:,}",
            hint="give a longer one with --text, or a smaller --batch",
        )
    batches: list[list[Sentence]] = []
    n_words = 0
    for start in range(0, len(sentences) - size + 1, size):
        if n_words >= max_words:
            break
        batches.append(list(sentences[start : start + size]))
        n_words += count_words(batches[-1:])
    return batches


def count_words(batches: Sequence[Sequence[Sentence]]) -> int:
    """Tokens; padding and marks are not words."""
    return sum(map(len, chain.from_iterable(batches)))


def batch_sizes(text: str) -> tuple[int, ...]:
    """`1,32,128` as numbers."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise SettingsError(f"--batch is positive whole numbers, found {text!r}", hint="for example --batch 1,32,128")
    return tuple(dict.fromkeys(map(int, parts)))
