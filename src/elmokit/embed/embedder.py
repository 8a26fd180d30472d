"""Sentences in, vectors out, in input order, in bounded memory."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import torch

from ..errors import DataError, SettingsError
from ..kernels.engine import Engine, Rows
from ..kernels.kept import Kept
from ..kernels.word_table import TableStats, WordTable
from ..model.batch import BiLMState
from ..model.bilm import BiLM
from ..model.config import State
from ..settings import check
from ..text.batching import buckets, windows
from ..text.config import TextConfig
from ..text.tokens import tokenizer as get_tokenizer
from ..weights.bundle import Provenance
from ..weights.load import Source, load_bilm, read_weights
from .language_model import (
    Perplexity,
    Start,
    TokenScores,
    log_probs,
    perplexity,
    substitutes,
    vocabulary_of,
)
from .reading import Item, Sentence, items
from .vectors import SentenceVectors, Vectors

Precision = Literal["float32", "float64", "bfloat16"]

LONG_BATCHES = 8
"""A sentence of so many batches' tokens gathers its vectors in the machine's memory, piece by piece."""

WINDOW_BATCHES = 4
"""Batches' worth of tokens that are sorted by length together: more pads less, and holds more vectors in memory."""


def load(
    source: Source,
    *,
    state: State | None = None,
    device: str = "auto",
    precision: Precision = "float32",
    tokenizer: str | Callable[[str], Sequence[str]] | None = None,
    language: str | None = None,
    split_sentences: bool | None = None,
    batch_tokens: int = 4096,
    batch_size: int = 64,
    n_layers: int | None = None,
) -> Embedder:
    """The model of any source, ready to embed; the settings are those of `Embedder`."""
    bundle = read_weights(source, softmax=False, checksum=False)
    embedder = Embedder(
        bundle.build(),
        state=state,
        device=device,
        precision=precision,
        tokenizer=tokenizer,
        language=language,
        split_sentences=split_sentences,
        batch_tokens=batch_tokens,
        batch_size=batch_size,
        n_layers=n_layers,
    )
    embedder.source, embedder.provenance = source, bundle.provenance
    return embedder


class Embedder:
    """A biLM, and how to read text for it.

    `state` says how a sentence starts: `zero`; `settled`, the state after a neutral sentence; or `carry`, as bilm-tf
    and AllenNLP: `batch_size` consecutive sentences at a time, each row going on where its last sentence ended, from
    zero at each call. The default suits how the model was trained. With `zero` and `settled` a sentence's vectors
    depend on nothing but the sentence. `batch_tokens` bounds the memory of one step. The text settings replace those
    that the model was trained with. `precision` is what is computed in. `n_layers` layers are computed, from the token
    layer up: those above are not run. Threads may share an embedder.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        state: State | None = None,
        device: str = "auto",
        precision: Precision = "float32",
        tokenizer: str | Callable[[str], Sequence[str]] | None = None,
        language: str | None = None,
        split_sentences: bool | None = None,
        batch_tokens: int = 4096,
        batch_size: int = 64,
        n_layers: int | None = None,
    ) -> None:
        if state is None:
            state = "zero" if bilm.config.state == "zero" else "settled"
        check(
            (state in get_args(State), f"state is one of {', '.join(get_args(State))}, found {state!r}"),
            (precision in get_args(Precision), f"precision is one of {get_args(Precision)}, found {precision!r}"),
            (batch_tokens > 0 and batch_size > 0, "batch_tokens and batch_size must be positive"),
        )
        self.state: State = state
        self.text = _text_config(bilm, tokenizer, language=language, split_sentences=split_sentences)
        self.batch_tokens = batch_tokens
        self.batch_size = batch_size
        self.tokenizer = get_tokenizer(tokenizer or self.text.tokenizer, language=self.text.language)
        self.source: Source | None = None
        self.provenance: Provenance | None = None
        # bfloat16 is what the engine multiplies in: weights, cells and vectors stay float32.
        dtype = torch.float64 if precision == "float64" else torch.float32
        self.bilm = bilm.to(device=choose_device(device), dtype=dtype).eval()
        self.bilm.encode([])  # a model that cannot read tokens says so now
        self.engine_dtype: torch.dtype = getattr(torch, precision)
        self.n_layers = bilm.config.n_layers if n_layers is None else n_layers
        check(
            (
                type(self.n_layers) is int and 0 < self.n_layers <= bilm.config.n_layers,
                f"n_layers is 1 to {bilm.config.n_layers} of this model, found {n_layers!r}",
            )
        )
        self._engine = Kept[tuple[Engine, WordTable]]()
        self.word_stats = TableStats()
        """How often a word's vector was still known from an earlier batch."""

    def embed(self, sentences: Iterable[Sentence]) -> list[SentenceVectors]:
        """Texts or token lists to vectors, one result for each; a text is tokenised as the model was trained."""
        return list(self.stream(sentences))

    def stream(self, sentences: Iterable[Sentence]) -> Iterator[SentenceVectors]:
        """The same, lazily: a window of sentences is read, run and given out before the next is read."""
        read = items(sentences, self.text, self.tokenizer)
        if self.state == "carry":
            yield from self._stream_carried(read)
            return
        for window in windows(read, lambda item: len(item.tokens) + 1, self._size):
            vectors = deque(self._independent(list(_sentences(window)), self.state))
            for item in window:
                yield self._together(item, vectors)

    def score(self, sentences: Iterable[Sentence]) -> Iterator[TokenScores]:
        """How likely the language model finds each token, in each direction; lazily, one result for each sentence."""
        engine, start = self.language_engine(), self._start()
        read = _sentences(items(sentences, self.text, self.tokenizer))
        for window in windows(read, lambda sentence: len(sentence) + 2, self._size):
            found = dict(log_probs(engine, window, start=start, batch_tokens=self.batch_tokens))
            yield from (TokenScores.of(sentence, found[i]) for i, sentence in enumerate(window))

    def perplexity(self, sentences: Iterable[Sentence]) -> Perplexity:
        """How well the language model predicts a text: exact, over its whole vocabulary."""
        read = items(sentences, self.text, self.tokenizer)
        engine, start = self.language_engine(), self._start()
        return perplexity(engine, _sentences(read), start=start, batch_tokens=self.batch_tokens)

    def substitutes(self, sentence: Sentence, position: int, *, n: int = 10) -> list[tuple[str, float]]:
        """The `n` likeliest words in place of token `position`, and their probabilities."""
        (item,) = items([sentence], self.text, self.tokenizer)
        return substitutes(self.language_model(), item.tokens, position, n=n, start=self._start())

    def language_model(self) -> BiLM:
        """The biLM with its softmax, which is read when first asked for: embedding does not need it."""
        if self.bilm.softmax is None and self.source is not None:
            weight = next(self.bilm.parameters())
            self.bilm = load_bilm(self.source, softmax=True).to(device=weight.device, dtype=weight.dtype)
        vocabulary_of(self.bilm)
        return self.bilm

    def language_engine(self) -> Engine:
        """The same, made ready to run."""
        return self._engine.get(self.language_model(), self._make_engine)[0]

    def _start(self) -> Start:
        if self.state == "carry":
            raise SettingsError("a score is of sentences each on its own", hint='load with state="settled" or "zero"')
        return self.state

    @property
    def _size(self) -> int:
        return self.batch_tokens * WINDOW_BATCHES

    def _stream_carried(self, read: Iterable[Item]) -> Iterator[SentenceVectors]:
        state = self.bilm.start("zero", 0)
        waiting: deque[Item] = deque()
        vectors: deque[Vectors] = deque()
        for batch in windows(_sentences(_kept(read, waiting)), lambda sentence: 1, self.batch_size):
            found, end = self._run(batch, state.rows(len(batch)))
            state = end  # only the last batch has fewer rows
            vectors += found
            while waiting and len(waiting[0].lengths) <= len(vectors):
                yield self._together(waiting.popleft(), vectors)
        for item in waiting:
            yield self._together(item, vectors)

    def _independent(self, sentences: Sequence[Sequence[str]], start: Literal["zero", "settled"]) -> list[Vectors]:
        """Batches of about equal lengths; an empty sentence is no work."""
        results = [self._empty()] * len(sentences)
        filled = [i for i, sentence in enumerate(sentences) if sentence]
        for batch in buckets([len(sentences[i]) + 2 for i in filled], self.batch_tokens):
            positions = [filled[i] for i in batch]
            vectors, _ = self._run([sentences[i] for i in positions], self.bilm.start(start, len(positions)))
            for position, found in zip(positions, vectors, strict=True):
                results[position] = found
        return results

    def _run(self, sentences: Sequence[Sequence[str]], state: BiLMState) -> tuple[list[Vectors], BiLMState]:
        """Each sentence's vectors, and where its row now stands; what is too much for the device is done in halves."""
        try:
            return self._run_at_once(sentences, state)
        except torch.OutOfMemoryError as error:
            if len(sentences) == 1:
                raise DataError(
                    f"{self.bilm.device} has too little memory for a sentence of {len(sentences[0]):,} tokens",
                    hint="a smaller model, --precision bfloat16, or --device cpu",
                ) from error
        torch.cuda.empty_cache()
        half = len(sentences) // 2
        first, end = self._run(sentences[:half], state.rows(half))
        second, other = self._run(sentences[half:], state.behind(half))
        return first + second, end.beside(other)

    @torch.inference_mode()
    def _run_at_once(self, sentences: Sequence[Sequence[str]], state: BiLMState) -> tuple[list[Vectors], BiLMState]:
        engine, words = self._engine.get(self.bilm, self._make_engine)
        vectors, index = words.read(sentences)
        is_long = index.size > LONG_BATCHES * self.batch_tokens
        device = torch.device("cpu") if is_long else None
        # What is computed in was said in `precision`, whatever autocast the caller has on.
        with torch.autocast(self.bilm.device.type, enabled=False):
            start = state.cell, state.hidden
            layers, end = engine.run(vectors, Rows.flat(index), start, n_layers=self.n_layers, device=device)
        # NumPy has no bfloat16.
        found = layers.to(next(self.bilm.parameters()).dtype).cpu().numpy()
        if len(sentences) == 1:
            return [found], BiLMState(*end)
        ends = np.cumsum([len(sentence) for sentence in sentences])
        return [part.copy() for part in np.split(found, ends[:-1], axis=1)], BiLMState(*end)

    def _make_engine(self) -> tuple[Engine, WordTable]:
        bilm, engine = self.bilm, Engine(self.bilm, dtype=self.engine_dtype)
        # Without a reference to this embedder, which would be a circle: what is dropped frees its memory at once.
        return engine, WordTable(lambda words: engine.token_vectors(bilm.encode([words])), self.word_stats)

    def _together(self, item: Item, vectors: deque[Vectors]) -> SentenceVectors:
        """An input's sentences, the next of `vectors`, side by side again."""
        own = [vectors.popleft() for _ in item.lengths]
        layers = own[0] if len(own) == 1 else np.concatenate([self._empty(), *own], axis=1)
        return SentenceVectors(item.tokens, layers, item.offsets, self.bilm.config.directions)

    def _empty(self) -> Vectors:
        config, dtype = self.bilm.config, next(self.bilm.parameters()).dtype
        return np.zeros((self.n_layers, 0, config.dim), torch.empty(0, dtype=dtype).numpy().dtype)


def _sentences(read: Iterable[Item]) -> Iterator[tuple[str, ...]]:
    return (sentence for item in read for sentence in item.sentences())


def _kept(read: Iterable[Item], waiting: deque[Item]) -> Iterator[Item]:
    """Items as they are read, and remembered until their vectors are there."""
    for item in read:
        waiting.append(item)
        yield item


def _text_config(
    bilm: BiLM, tokenizer: str | Callable[..., object] | None, *, language: str | None, split_sentences: bool | None
) -> TextConfig:
    config = bilm.config.text
    if isinstance(tokenizer, str):
        config = dataclasses.replace(config, tokenizer=tokenizer)
    if language is not None:
        config = dataclasses.replace(config, language=language)
    if split_sentences is not None:
        config = dataclasses.replace(config, split_sentences=split_sentences)
    return config


def choose_device(name: str, *, index: int = 0) -> torch.device:
    """The device of that name; `auto` is GPU number `index` where there is one, else the CPU."""
    if name == "auto":
        return torch.device(f"cuda:{index}" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.ones(1, device=device).cpu()  # "meta" makes tensors, and gives nothing back
    except (RuntimeError, AssertionError, ImportError, AttributeError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SettingsError(
            f"device {name!r} cannot be used: {reason:.120}", hint="auto, cpu, cuda, cuda:1, mps"
        ) from error
    return device
