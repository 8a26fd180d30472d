"""Blocks of text to tokens, on all cores: results come in the order of the blocks, whoever made them.

A block's tokens travel as small ids into the block's own list of words: that is what makes a second process worth it.
Workers are fresh interpreters ("spawn"), safe beside threads and PyTorch; a script that uses them needs the usual
`if __name__ == "__main__"`. A text of a few blocks is done in this process, sooner than a worker would have started.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import RunError
from ..text.config import TextConfig
from ..text.sentences import split_sentences
from ..text.tokens import Tokenizer, tokenizer
from .corpus import Block, lines

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, float], None]
"""Is told the tokens so far, and the share of the corpus that is done."""

LONGEST_WORD = 1024
"""Characters that are kept of a token: no model reads more than 512 bytes."""

FEW_BLOCKS = 8
"""What is sooner done here than by workers that have to be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBlock:
    """The tokens of a block."""

    words: list[str]
    """Its words, in order of first appearance; those that were cut may be equal."""
    ids: NDArray[np.uint32]
    """Each token as a place in `words`."""
    lengths: NDArray[np.int64]
    """Tokens of each sentence."""
    documents: NDArray[np.int64]
    """Which of its sentences begin a document; `len(lengths)` when the next block's first one does."""
    share: float
    """How much of the corpus is done with it."""


def tokenise(block: Block, *, text: TextConfig) -> TokenBlock:
    """Cut a block as a model's config says. A line is one sentence, unless lines are split."""
    cut = tokenizer(text.tokenizer, text.language)
    tokens: list[str] = []
    lengths: list[int] = []
    documents = [0] if block.offset == 0 else []
    for number, line in enumerate(lines(block)):
        if not line or line.isspace():
            if number or not block.inside_line:
                documents.append(len(lengths))
            continue
        for sentence in _sentences(line, text, cut):
            tokens += sentence
            lengths.append(len(sentence))
    places = {word: place for place, word in enumerate(dict.fromkeys(tokens))}
    return TokenBlock(
        words=[word[:LONGEST_WORD] for word in places],
        ids=np.fromiter(map(places.__getitem__, tokens), np.uint32, len(tokens)),
        lengths=np.array(lengths, np.int64),
        documents=np.unique(np.array(documents, np.int64)),
        share=block.share,
    )


def in_order(function: Callable[[T], R], items: Iterable[T], *, workers: int = 0) -> Iterator[R]:
    """`map` on several processes; 0 workers are one for each core, and none for a few items."""
    items = iter(items)
    if workers == 0:
        first = list(islice(items, FEW_BLOCKS + 1))
        workers = n_cores() if len(first) > FEW_BLOCKS else 1
        items = chain(first, items)
    return map(function, items) if workers == 1 else _in_processes(function, items, workers)


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sentences(line: str, text: TextConfig, cut: Tokenizer) -> Iterator[tuple[str, ...]]:
    spans = split_sentences(line, text.language) if text.split_sentences else [(0, len(line))]
    for start, end in spans:
        tokens = cut(line[start:end]).tokens
        if tokens:  # a line of control characters has none
            yield tokens


def _in_processes(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_begin_worker)
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise RunError(
            "a worker process ended before its work was done",
            hint='memory may be short; a script of your own needs `if __name__ == "__main__":`; or set workers to 1',
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Ctrl-C is the parent's to handle, and a worker does not outlive it, however it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
