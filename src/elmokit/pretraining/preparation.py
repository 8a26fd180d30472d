"""Before a run begins: its text as token stores, its validation text, and the shape of its model.

A run that goes on must find the text and the settings that it began with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import DataError, RunError
from ..model.config import BiLMConfig, SoftmaxConfig
from ..runs import Run
from ..settings import from_plain, read_toml, to_plain
from ..text.vocabulary import Vocabulary
from .parallel import rank
from .settings import PretrainSettings
from .start import start_vocabulary
from .store import TokenStore, build_store


@dataclass(frozen=True)
class Texts:
    """The text to train on, and the one to choose by."""

    train: TokenStore
    valid: TokenStore
    general: TokenStore | None = None
    """Of another kind, where a model is adapted."""

    def sentences(self, n_tokens: int | None, *, general: bool = False) -> list[list[str]]:
        """The validation text's sentences, up to so many tokens."""
        store = self.general if general else self.valid
        assert store is not None
        ends = store.sentence_starts[1:]
        n = len(ends) if n_tokens is None else max(1, int((ends <= n_tokens).sum()))
        return list(islice(store.sentences(), n))


def prepare(settings: PretrainSettings, run: Run, say: Callable[[str], None]) -> Texts:
    """The run folder and its token stores. A run that goes on must find the text and settings it began with."""
    begun = run.exists
    if begun:
        refuse_other_settings(run, settings)
    corpus = settings.corpus
    store = build_store(
        corpus.paths,
        run.folder / "store",
        text=settings.bilm.text,
        vocabulary=Path(corpus.vocabulary) if corpus.vocabulary else _known_words(settings, run),
        max_words=corpus.max_words,
        min_count=corpus.min_count,
        workers=corpus.workers,
        rebuild=not begun or not (run.folder / "store").exists(),
    )
    if not store.reused:
        say(f"read {store.n_tokens:,} tokens in {store.n_sentences:,} sentences")

    def other(name: str, paths: tuple[str, ...]) -> TokenStore:
        folder = run.folder / name
        rebuild = not begun or not folder.exists()
        return build_store(
            paths, folder, text=settings.bilm.text, vocabulary=store.vocabulary, workers=corpus.workers, rebuild=rebuild
        )

    texts = _texts(settings, store, other)
    # Last, so that a run whose text could not be read has not begun.
    if not begun and rank() == 0:
        run.create(settings, {"seed": settings.seed})
    return texts


def _texts(settings: PretrainSettings, store: TokenStore, other: Callable[[str, tuple[str, ...]], TokenStore]) -> Texts:
    corpus = settings.corpus
    general = other("general-store", settings.start.general) if settings.start.general else None
    if corpus.valid:
        return Texts(store, other("valid-store", corpus.valid), general)
    cut = max(1, store.tail_split(corpus.valid_share))
    return Texts(store.slice(0, cut), store.slice(cut, store.n_sentences), general)


def _known_words(settings: PretrainSettings, run: Run) -> Vocabulary | None:
    """Where a model with a softmax is adapted: the new text's words, and then those that it knows."""
    known = None if settings.start.model is None else start_vocabulary(settings.start)
    if known is None:
        return None
    if "-" in settings.corpus.paths:
        raise DataError("a model with a softmax is adapted to a text that is read twice", hint="keep it in a file")
    own = build_store(
        settings.corpus.paths,
        run.folder / "words-store",
        text=settings.bilm.text,
        max_words=settings.corpus.max_words,
        min_count=settings.corpus.min_count,
        workers=settings.corpus.workers,
    ).vocabulary
    words = list(dict.fromkeys([*own.words, *known.words]))
    return Vocabulary(tuple(words[: settings.corpus.max_words]))


def complete_config(settings: PretrainSettings, store: TokenStore) -> BiLMConfig:
    """The model's shape, with what only the text tells: its words, and how long its tokens are."""
    config = settings.bilm
    characters, words = config.characters, config.words
    if characters is not None and settings.corpus.fit_token_length:
        widest = max(width for width, _ in characters.filters)
        length = max(widest, store.fitting_token_length())
        characters = dataclasses.replace(characters, max_characters_per_token=length)
    if words is not None:
        words = dataclasses.replace(words, n_words=store.n_words)
    tied = config.softmax is not None and config.softmax.tied
    softmax = SoftmaxConfig(n_words=store.n_words, tied=tied)
    return dataclasses.replace(config, characters=characters, words=words, softmax=softmax)


def refuse_other_settings(run: Run, settings: PretrainSettings) -> None:
    then = from_plain(PretrainSettings, read_toml(run.settings_file), where=str(run.settings_file))
    changed = list(_changes(to_plain(then), to_plain(settings)))
    if changed:
        listed = "".join(f"\n  - {change}" for change in changed)
        raise RunError(
            f"{run.folder} was begun with other settings:{listed}", hint="use the same line, or another --out"
        )


def _changes(then: Any, now: Any, key: str = "") -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for name in then:
            yield from _changes(then[name], now[name], f"{key}.{name}" if key else name)
    elif then != now:
        yield f"{key} was {then}, is now {now}"
