"""Nothing is lost, doubled or put out of order by batching; budgets hold; the input alone decides."""

from __future__ import annotations

from itertools import chain, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.text.batching import buckets, windows

STABLE = settings(derandomize=True, deadline=None, max_examples=150)
LENGTHS = st.lists(st.integers(0, 60), max_size=60)
BUDGET = st.integers(1, 120)


def cut(lengths: list[int], budget: int) -> list[list[int]]:
    return list(windows(lengths, lambda length: length, budget))


@STABLE
@given(LENGTHS, BUDGET)
def test_windows_keep_order_and_budget(lengths: list[int], budget: int) -> None:
    found = cut(lengths, budget)
    assert list(chain.from_iterable(found)) == lengths
    for window in found:
        assert window
        assert sum(window) <= budget or len(window) == 1
    assert cut(lengths, budget) == found


@STABLE
@given(LENGTHS, BUDGET)
def test_windows_are_not_smaller_than_they_must_be(lengths: list[int], budget: int) -> None:
    found = cut(lengths, budget)
    for window, following in pairwise(found):
        assert sum(window) + following[0] > budget


@STABLE
@given(LENGTHS, BUDGET)
def test_buckets_lose_nothing_and_keep_the_budget(lengths: list[int], budget: int) -> None:
    found = buckets(lengths, budget)
    assert sorted(chain.from_iterable(found)) == list(range(len(lengths)))
    for batch in found:
        assert batch
        assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1
    assert buckets(lengths, budget) == found


@STABLE
@given(LENGTHS, BUDGET)
def test_buckets_are_sorted_so_that_little_is_padded(lengths: list[int], budget: int) -> None:
    in_order = [lengths[i] for i in chain.from_iterable(buckets(lengths, budget))]
    assert in_order == sorted(lengths)
