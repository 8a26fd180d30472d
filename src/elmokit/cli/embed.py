"""`elmokit embed`: a text file to vectors."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from cyclopts import Parameter

from ..errors import DataError, SettingsError
from .options import ModelOptions
from .wording import counted

if TYPE_CHECKING:
    from ..embed.embedder import Embedder
    from ..embed.vectors import SentenceVectors


def embed(
    input: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    output: Annotated[str | None, Parameter(name=["--output", "-o"], allow_leading_hyphen=True)] = None,
    model_options: ModelOptions,
    layers: int | None = None,
    stats: bool = False,
    force: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> None:
    """Embed a text: one line is one record, an empty line an empty one.

    Parameters
    ----------
    input
        A UTF-8 text file, or - for standard input.
    output
        .npz, .jsonl or .hdf5 (as `allennlp elmo` wrote it); - for JSON lines on standard output. Without it, a summary.
    layers
        Compute so many layers, from the token layer up; by default all.
    stats
        Say afterwards how often a word was still known, and what it took of memory.
    force
        Overwrite the output.
    quiet
        Say nothing on standard error but errors.
    """
    target = None if output in (None, "-") else Path(str(output))
    _check_target(target, force=force)
    _check_not_read(target, [input], model_options)
    with opened(input) as file:
        started = time.perf_counter()
        embedder = model_options.load(n_layers=layers)
        counter = _Counter(embedder, quiet=quiet)
        if not quiet:
            seconds = time.perf_counter() - started
            print(_what_is_done(model_options.model, embedder, seconds), file=sys.stderr)
        records = counter.over(_records(embedder, file, "standard input" if input == "-" else input))
        if target is not None:
            _write(records, target)
        elif output == "-":
            _print_lines(records)
        else:
            _print_summary(records)
    if not quiet:
        print(counter.summary(target), file=sys.stderr)
    if stats:
        print(_stats(embedder), file=sys.stderr)


def _check_target(target: Path | None, *, force: bool) -> None:
    from ..embed.writers import get_writer

    if target is None:
        return
    get_writer(target)
    if target.exists() and not force:
        raise SettingsError(f"{target} exists", hint="choose another name, or add --force to overwrite it")
    if not target.parent.is_dir():
        raise SettingsError(f"{target.parent}: no such folder", hint=f"mkdir -p {target.parent}")


def _check_not_read(target: Path | None, inputs: Iterable[str], model: ModelOptions) -> None:
    """Refuse to overwrite, even if told to, what the vectors are made from."""
    from ..weights.load import files_of

    if target is None or not target.exists():
        return
    read = [*map(Path, inputs), *files_of((model.options, model.model) if model.options else model.model)]
    if any(path.exists() and path.samefile(target) for path in read):
        raise SettingsError(f"{target}: is read by this very command", hint="choose another name for the output")


@contextlib.contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        if sys.stdin is None:
            raise DataError("standard input is closed", hint="give a text file")
        yield sys.stdin.buffer
        return
    path = Path(name)
    if path.is_dir() or not path.exists():  # pipes are fine: <(zcat text.gz), /dev/stdin
        what = "is a folder" if path.is_dir() else "no such file"
        raise DataError(f"{path}: {what}", hint="give a text file, or - for standard input")
    with path.open("rb") as file:
        yield file


def _what_is_done(model: str, embedder: Embedder, seconds: float) -> str:
    text = embedder.text
    tokenizer = f"{text.tokenizer}{f' ({text.language})' if text.language else ''}"
    splitting = " · lines split into sentences" if text.split_sentences else ""
    options = embedder.provenance.options if embedder.provenance else ""
    said = f"\noptions: {options}" if options else ""
    return (
        f"{model} · {embedder.bilm.device} · {_STATES[embedder.state]} · "
        f"tokenizer {tokenizer}{splitting} · ready in {seconds:.1f} s{said}"
    )


_STATES = {
    "zero": "state zero (each sentence starts from nothing)",
    "settled": "state settled (each sentence starts alike)",
    "carry": "state carried from sentence to sentence",
}


def _stats(embedder: Embedder) -> str:
    from ..kernels.word_table import TABLE_BYTES
    from ..pretraining.memory import memory_in_use

    words = embedder.word_stats
    return (
        f"words: {words.asked:,} looked up, {words.hit_rate:.1%} known from an earlier batch "
        f"(table of up to {TABLE_BYTES >> 20} MiB) · "
        f"memory: {memory_in_use(embedder.bilm.device) / 1e6:,.0f} MB at most"
    )


def _records(embedder: Embedder, file: BinaryIO, name: str) -> Iterator[tuple[str, SentenceVectors]]:
    """Each line with its vectors; the lines wait in a queue no longer than the embedder's window."""
    from collections import deque

    from ..text.lines import lines

    waiting: deque[str] = deque()

    def read() -> Iterator[str]:
        for line in lines(file, name):
            waiting.append(line)
            yield line

    for vectors in embedder.stream(read()):
        yield waiting.popleft(), vectors


def _write(records: Iterable[tuple[str, SentenceVectors]], target: Path) -> None:
    from ..embed.writers import get_writer
    from ..files import beside

    with beside(target) as temporary, get_writer(target)(temporary) as writer:
        for text, vectors in records:
            writer.write(vectors, text)


def _print_lines(records: Iterable[tuple[str, SentenceVectors]]) -> None:
    from ..embed.writers.jsonl import line

    for index, (text, vectors) in enumerate(records):
        print(line(vectors, text, index=index))


SHOWN_SENTENCES, SHOWN_TOKENS, SHOWN_NUMBERS = 3, 12, 4


def _print_summary(records: Iterable[tuple[str, SentenceVectors]]) -> None:
    """The first sentences for people to look at; the rest is counted."""
    for index, (_, vectors) in enumerate(records):
        if index < SHOWN_SENTENCES:
            _print_sentence(index, vectors)
        elif index == SHOWN_SENTENCES:
            print("... and so on; give -o FILE to keep the vectors\n")


def _print_sentence(index: int, vectors: SentenceVectors) -> None:
    n_layers, n_tokens, dim = vectors.layers.shape
    print(f"sentence {index}: {n_tokens} tokens, {n_layers} layers of {dim} numbers")
    width = max((len(_shown(token)) for token in vectors.tokens[:SHOWN_TOKENS]), default=0)
    for i, token in enumerate(vectors.tokens[:SHOWN_TOKENS]):
        numbers = "  ".join(" ".join(f"{x:6.2f}" for x in layer[i, :SHOWN_NUMBERS]) + " …" for layer in vectors.layers)
        print(f"  {_shown(token):<{width}}  {numbers}")
    if n_tokens > SHOWN_TOKENS:
        print(f"  ... {n_tokens - SHOWN_TOKENS} more tokens")
    print()


def _shown(token: str) -> str:
    token = token if len(token) <= 20 else token[:19] + "…"
    return token.encode("unicode_escape").decode() if not token.isprintable() else token


class _Counter:
    """Counts what passes, under a progress bar on a terminal."""

    def __init__(self, embedder: Embedder, *, quiet: bool) -> None:
        characters = embedder.bilm.config.characters
        self.limit = characters.max_characters_per_token - 2 if characters else None
        self.n_sentences = self.n_tokens = self.n_cut = 0
        self.started = time.perf_counter()
        self.quiet = quiet

    def over(self, records: Iterable[tuple[str, SentenceVectors]]) -> Iterator[tuple[str, SentenceVectors]]:
        from tqdm import tqdm

        with tqdm(disable=True if self.quiet else None, unit=" words", unit_scale=True) as bar:
            for text, vectors in records:
                self.n_sentences += 1
                self.n_tokens += len(vectors)
                if self.limit is not None:
                    # A character has four bytes at most, so most tokens need not be encoded to know.
                    self.n_cut += sum(
                        4 * len(token) > self.limit and len(token.encode("utf-8", "ignore")) > self.limit
                        for token in vectors.tokens
                    )
                bar.update(len(vectors))
                yield text, vectors

    def summary(self, target: Path | None) -> str:
        seconds = time.perf_counter() - self.started
        parts = [
            counted(self.n_sentences, "sentence"),
            counted(self.n_tokens, "word"),
            f"{self.n_tokens / seconds:,.0f} words/s",
        ]
        if self.n_cut:
            parts.append(f"of {counted(self.n_cut, 'word')} only the first {self.limit} bytes are read")
        return " · ".join([*parts, str(target)] if target else parts)
