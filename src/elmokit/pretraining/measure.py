"""Perplexity of files, whole and by document."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..embed.embedder import Embedder
from ..embed.language_model import Perplexity, PerplexityCounter, log_probs, vocabulary_of
from ..errors import SettingsError
from ..text.batching import windows
from .store import build_store

WINDOW_BATCHES = 8


def perplexities(text: str, embedder: Embedder, *, by_document: bool = False) -> Iterator[tuple[str, Perplexity]]:
    """("", perplexity) of the whole text, after one for each document where asked for, by number from 1."""
    if embedder.state == "carry":
        raise SettingsError("perplexity is of sentences each on its own", hint="--state settled, or zero")
    engine = embedder.language_engine()
    vocabulary = vocabulary_of(engine.bilm)
    with tempfile.TemporaryDirectory() as folder:
        store = build_store([text], Path(folder) / "store", text=embedder.text, vocabulary=vocabulary)
        total, document, number = PerplexityCounter(vocabulary), PerplexityCounter(vocabulary), 0
        ends = {int(start) for start in store.document_starts[1:]} | {store.n_sentences}
        size = embedder.batch_tokens * WINDOW_BATCHES
        done = 0
        for window in windows(store.sentences(), lambda sentence: len(sentence) + 2, size):
            found = dict(log_probs(engine, window, start=embedder.state, batch_tokens=embedder.batch_tokens))
            for i, sentence in enumerate(window):
                total.add(sentence, found[i])
                document.add(sentence, found[i])
                done += 1
                if done in ends:
                    number += 1
                    if by_document:
                        yield str(number), document.result()
                    document = PerplexityCounter(vocabulary)
    yield "", total.result()
