"""One run of measurements: sides take turns over the same batches, round by round.

A machine that slows down slows all sides, so ratios are taken within a round, and the middle round counts. Before the
clock runs the vectors of all sides are compared, and each side goes through its batches once untimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from ..embed.embedder import Embedder, Precision
from ..model.config import BiLMConfig
from ..settings import check
from ..weights.load import Source, read_weights
from .report import BenchReport, Result, Spread, TextFacts, Turn, device_name, ratios, share
from .rival import Rival, rival
from .sides import EmbedderSide, ModuleSide, Side, Vectors
from .text import Sentence, count_words, read_sentences, whole_batches
from .work import ceiling, multiply_adds

MIN_SECONDS = 0.2
"""A side goes through its batches so often that its turn lasts so long."""

Against = Literal["allennlp", "none"]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What is measured, and on what."""

    model: Source
    against: Against = "allennlp"
    batch: tuple[int, ...] = (1, 32, 128)
    """Sentences in a batch."""
    precision: Precision = "float32"
    """What elmokit computes in; AllenNLP computes in float32."""
    device: str = "auto"
    text: Path | None = None
    """A sentence a line; by default the text that comes with elmokit."""
    rounds: int = 7
    words: int = 3000
    """Batches are taken until they hold so many words."""
    allennlp_python: str | None = None
    """The interpreter that has AllenNLP; by default this one."""

    def __post_init__(self) -> None:
        known, sizes = get_args(Against), self.batch
        check(
            (self.against in known, f"against is one of {', '.join(known)}, found {self.against!r}"),
            (bool(sizes) and all(n > 0 for n in sizes), f"batch sizes must be positive, found {sizes}"),
            (self.rounds > 0, f"rounds must be positive, found {self.rounds}"),
            (self.words > 0, f"words must be positive, found {self.words}"),
        )


def bench(settings: BenchSettings, *, say: Say = lambda line: None) -> BenchReport:
    """Measure; `say` is told how far it is."""
    bundle = read_weights(settings.model, softmax=False, checksum=False)
    embedder = Embedder(bundle.build(), state="zero", device=settings.device, precision=settings.precision)
    device = embedder.bilm.device
    sentences = read_sentences(settings.text, embedder.tokenizer)
    lists = {size: whole_batches(sentences, size, max_words=settings.words) for size in settings.batch}
    with ExitStack() as stack:
        other: Rival | None = None
        if settings.against == "allennlp":
            say("starting AllenNLP")
            other = stack.enter_context(rival(bundle, python=settings.allennlp_python, device=device))
        say("measuring the ceiling: large products of matrices")
        precisions: dict[str, None] = dict.fromkeys(("float32", "bfloat16", settings.precision))
        ceilings = {name: ceiling(device, getattr(torch, name)) for name in precisions}
        ours = [kind(embedder, precision=settings.precision) for kind in (ModuleSide, EmbedderSide)]
        results = []
        for size, batches in lists.items():
            run = _Run(bundle.config, ours, other, batches)
            run.go(settings.rounds, _about(say, size))
            results += run.results(size, ceilings)
    return BenchReport(
        model=_name(settings.model),
        elmokit=version("elmokit"),
        device=str(device),
        device_name=device_name(device),
        precision=settings.precision,
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        rounds=settings.rounds,
        against=other.versions if other is not None else None,
        text=TextFacts.of("bundled" if settings.text is None else settings.text.name, [*map(len, sentences)]),
        ceiling=ceilings,
        results=results,
    )


class _Run:
    """All sides over one list of batches."""

    def __init__(
        self, config: BiLMConfig, ours: Sequence[Side], other: Side | None, batches: Sequence[Sequence[Sentence]]
    ) -> None:
        self.config, self.ours, self.other, self.batches = config, ours, other, batches
        self.sides = [*ours, *([] if other is None else [other])]
        self.n_words = count_words(batches)
        self.turns: Mapping[str, Sequence[Turn]] = {}
        self.differences: Mapping[str, float] = {}

    def go(self, rounds: int, say: Say) -> None:
        for side in self.sides:
            side.take(self.batches)
        if self.other is not None:
            say("comparing vectors")
            self.differences = largest_differences(self.ours, self.other, n_batches=len(self.batches))
        self.turns = interleaved(self.sides, rounds, say=say)

    def results(self, size: int, ceilings: Mapping[str, float]) -> list[Result]:
        return [self._result(side, size, ceilings[side.precision]) for side in self.sides]

    def _result(self, side: Side, size: int, ceiling: float) -> Result:
        speeds = self._speeds(side)
        speed, timings = Spread.of(speeds), [turn.timing for turn in self.turns[side.name]]
        per_word = multiply_adds(self.config, self.batches, words_are_kept=side.words_are_kept) / self.n_words
        return Result(
            side=side.name,
            batch=size,
            sentences=sum(map(len, self.batches)),
            words=self.n_words,
            words_per_second=speed,
            ratio=None if self.other is None or side is self.other else ratios(speeds, self._speeds(self.other)),
            multiply_adds_per_word=per_word,
            share_of_ceiling=share(speed.median, multiply_adds_per_word=per_word, ceiling=ceiling),
            largest_difference=self.differences.get(side.name),
            process_bytes=max(timing.process_bytes for timing in timings),
            device_bytes=max((x.device_bytes for x in timings if x.device_bytes is not None), default=None),
        )

    def _speeds(self, side: Side) -> list[float]:
        return [turn.words_per_second(self.n_words) for turn in self.turns[side.name]]


def interleaved(sides: Sequence[Side], rounds: int, *, say: Say) -> dict[str, list[Turn]]:
    """Each side's turns; who goes first rotates, and one untimed round comes before, which says how long a pass is."""
    say("one untimed round")
    passes = {side.name: max(1, math.ceil(MIN_SECONDS / side.run(1).seconds)) for side in sides}
    turns: dict[str, list[Turn]] = {side.name: [] for side in sides}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        first = number % len(sides)
        for side in [*sides[first:], *sides[:first]]:
            turns[side.name].append(Turn(passes=passes[side.name], timing=side.run(passes[side.name])))
    return turns


def largest_differences(ours: Sequence[Side], other: Side, *, n_batches: int) -> dict[str, float]:
    """Of each of our sides from the other, over the spread of the other's layer: the worst of all layers."""
    low, high = np.float32(np.inf), np.float32(-np.inf)
    worst = {side.name: np.float32(0) for side in ours}
    for number in range(n_batches):
        expected = other.vectors(number)
        low = np.minimum(low, _of_each_layer(np.min, expected))
        high = np.maximum(high, _of_each_layer(np.max, expected))
        for side in ours:
            pairs = zip(side.vectors(number), expected, strict=True)
            found = _of_each_layer(np.max, [np.abs(mine - theirs) for mine, theirs in pairs])
            worst[side.name] = np.maximum(worst[side.name], found)
    # NaN on either side stays NaN: it must not pass for agreement.
    return {name: float(np.max(of_layers / (high - low))) for name, of_layers in worst.items()}


def _of_each_layer(what: Callable[..., Vectors], vectors: Sequence[Vectors]) -> Vectors:
    return what([what(one, axis=(1, 2)) for one in vectors], axis=0)


def _about(say: Say, size: int) -> Say:
    return lambda line: say(f"batch {size}: {line}")


def _name(source: Source) -> str:
    """Without the machine's folders."""
    return Path(source[-1] if isinstance(source, tuple) else source).name
