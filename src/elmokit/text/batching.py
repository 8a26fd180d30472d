"""Batches of about equal work, cut from the input alone: the same input always gives the same batches.

A window of the stream is sorted by length and cut where padding would pass the budget. Windows are bounded, so memory
is too; results are put back in input order window by window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def windows(items: Iterable[T], size: Callable[[T], int], max_size: int) -> Iterator[list[T]]:
    """Consecutive items whose sizes add up to `max_size` at most; a larger item stands alone."""
    window: list[T] = []
    total = 0
    for item in items:
        n = size(item)
        if window and total + n > max_size:
            yield window
            window, total = [], 0
        window.append(item)
        total += n
    if window:
        yield window


def buckets(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Positions of `lengths` in batches, shortest first: rows times the longest stays within `max_tokens`."""
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        # Sorted, so the newcomer is the longest of its batch.
        if batches and (len(batches[-1]) + 1) * lengths[position] <= max_tokens:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches
