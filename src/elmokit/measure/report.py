"""What was measured: plain data, and the arithmetic from seconds to it."""

from __future__ import annotations

import platform
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .sides import Timing


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The middle of several values, and the quartiles about it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        several = values if len(values) > 1 else [*values, *values]
        low, median, high = statistics.quantiles(several, n=4, method="inclusive")
        return cls(median=median, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Result:
    """One side with batches of one size."""

    side: str
    batch: int
    sentences: int
    words: int
    words_per_second: Spread
    ratio: Spread | None
    """How many times as fast as the rival in the same round."""
    multiply_adds_per_word: float
    """What the model must compute."""
    share_of_ceiling: float
    largest_difference: float | None
    """From the rival's vectors, over the spread of the rival's layer: the worst of all layers."""
    process_bytes: int
    """The most memory that its process held while it ran."""
    device_bytes: int | None
    """The most that PyTorch held on the GPU."""


@dataclass(frozen=True, kw_only=True)
class TextFacts:
    """Of the whole text, of which the batches are the beginning."""

    source: str
    sentences: int
    words: int
    mean_length: float
    longest: int

    @classmethod
    def of(cls, source: str, lengths: Sequence[int]) -> TextFacts:
        n, total = len(lengths), sum(lengths)
        return cls(source=source, sentences=n, words=total, mean_length=total / n, longest=max(lengths))


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """All results, and what they depend on."""

    model: str
    elmokit: str
    device: str
    device_name: str
    precision: str
    torch: str
    threads: int
    rounds: int
    against: Mapping[str, Any] | None
    """The rival's versions."""
    text: TextFacts
    ceiling: Mapping[str, float]
    """Floating-point operations a second of a large product of matrices, by precision."""
    results: Sequence[Result]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One side's part of one round."""

    passes: int
    timing: Timing

    def words_per_second(self, n_words: int) -> float:
        return self.passes * n_words / self.timing.seconds


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Of two sides' words a second, round by round."""
    return Spread.of([mine / other for mine, other in zip(ours, theirs, strict=True)])


def share(words_per_second: float, *, multiply_adds_per_word: float, ceiling: float) -> float:
    """Of the operations a second that the machine can; a multiply-add is two."""
    return 2 * multiply_adds_per_word * words_per_second / ceiling


def device_name(device: torch.device) -> str:
    """As its maker calls it."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        about = ""
    match = re.search(r"^model name\s*:\s*(.+)$", about, re.MULTILINE)
    return match[1].strip() if match and device.type == "cpu" else platform.processor() or platform.machine()
