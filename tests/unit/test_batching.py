"""Batches of about equal work: what the property tests do not say by example."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elmokit.text.batching import buckets, windows


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([3], [[3]]),
        ([2, 3, 5], [[2, 3], [5]]),
        ([2, 3, 6], [[2, 3], [6]]),
        ([9, 1, 9], [[9], [1], [9]]),
        ([0, 0, 5, 0], [[0, 0, 5, 0]]),
    ],
)
def test_windows(sizes: list[int], expected: list[list[int]]) -> None:
    assert list(windows(sizes, lambda size: size, 5)) == expected


def test_windows_read_one_item_beyond_what_they_give() -> None:
    read = 0

    def endless() -> Iterator[int]:
        nonlocal read
        while True:
            read += 1
            yield 1

    cut = windows(endless(), lambda size: size, 10)
    for n in range(1, 4):
        assert next(cut) == [1] * 10
        assert read == 10 * n + 1


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([], []),
        ([4], [[0]]),
        ([40], [[0]]),
        ([4, 2, 3, 2], [[1, 3, 2], [0]]),
        ([5, 5, 5], [[0, 1], [2]]),
        ([11, 1, 12], [[1], [0], [2]]),
    ],
)
def test_buckets(lengths: list[int], expected: list[list[int]]) -> None:
    assert buckets(lengths, 10) == expected
