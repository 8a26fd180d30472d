"""Packed rows: every step of every row in exactly one place, and pieces that are the whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.kernels.packing import Packing

STABLE = settings(derandomize=True, deadline=None)

LENGTHS = st.lists(st.integers(0, 12), max_size=12)


def packed(lengths: list[int]) -> Packing:
    return Packing(np.array(lengths, dtype=np.int64))


def test_three_rows_by_hand() -> None:
    packing = packed([2, 0, 3, 2])
    assert packing.order.tolist() == [2, 0, 3, 1] and packing.ranks.tolist() == [1, 3, 0, 2]
    assert packing.counts.tolist() == [3, 3, 1] and packing.offsets.tolist() == [0, 3, 6]
    steps, rows = packing.steps_and_rows()
    assert steps.tolist() == [0, 0, 0, 1, 1, 1, 2] and rows.tolist() == [2, 0, 3, 2, 0, 3, 2]
    assert packing.last_places().tolist() == [4 + 6, 4 + 4, 4 + 5, 3]
    assert packing.n_packed == 7


@STABLE
@given(lengths=LENGTHS)
def test_each_step_of_each_row_stands_in_one_place(lengths: list[int]) -> None:
    packing = packed(lengths)
    steps, rows = packing.steps_and_rows()
    expected = {(row, step) for row, length in enumerate(lengths) for step in range(length)}
    assert len(steps) == len(rows) == packing.n_packed == len(expected)
    assert set(zip(rows.tolist(), steps.tolist(), strict=True)) == expected


@STABLE
@given(lengths=LENGTHS)
def test_places_find_what_stands_there(lengths: list[int]) -> None:
    packing = packed(lengths)
    steps, rows = packing.steps_and_rows()
    assert packing.places(rows, steps).tolist() == list(range(packing.n_packed))


@STABLE
@given(lengths=LENGTHS)
def test_order_and_ranks_undo_each_other(lengths: list[int]) -> None:
    packing = packed(lengths)
    assert packing.order[packing.ranks].tolist() == packing.ranks[packing.order].tolist() == list(range(len(lengths)))
    assert packing.lengths[packing.order].tolist() == sorted(lengths, reverse=True)


@STABLE
@given(lengths=LENGTHS)
def test_counts_are_the_rows_that_still_run_and_fall(lengths: list[int]) -> None:
    packing = packed(lengths)
    assert packing.counts.tolist() == [sum(n > step for n in lengths) for step in range(max(lengths, default=0))]
    assert (np.diff(packing.counts) <= 0).all() and (packing.counts > 0).all()
    assert packing.offsets.tolist() == [sum(packing.counts[:step]) for step in range(len(packing.counts))]


@STABLE
@given(lengths=LENGTHS)
def test_rows_side_by_side_keep_the_packings_order_in_each_step(lengths: list[int]) -> None:
    """What lets a step read the rows of the step before without looking them up."""
    packing = packed(lengths)
    _, rows = packing.steps_and_rows()
    for offset, count in zip(packing.offsets, packing.counts, strict=True):
        assert rows[offset : offset + count].tolist() == packing.order[:count].tolist()


@STABLE
@given(lengths=LENGTHS)
def test_a_row_ends_where_its_last_step_stands_or_where_it_began(lengths: list[int]) -> None:
    packing = packed(lengths)
    starts_and_steps = [(row, -1) for row in packing.order.tolist()]
    steps, rows = packing.steps_and_rows()
    starts_and_steps += zip(rows.tolist(), steps.tolist(), strict=True)
    found = [starts_and_steps[place] for place in packing.last_places()]
    assert found == [(row, lengths[row] - 1) for row in packing.order.tolist()]


@STABLE
@given(lengths=LENGTHS, max_packed=st.integers(1, 40))
def test_parts_are_the_whole_in_order_and_of_bounded_size(lengths: list[int], max_packed: int) -> None:
    packing = packed(lengths)
    steps, rows = packing.steps_and_rows()
    end = n_steps = 0
    for piece, part in packing.parts(max_packed):
        assert piece.start == end and piece.stop - piece.start == part.n_packed > 0
        assert part.n_packed <= max_packed or len(part.counts) == 1
        own_steps, own_rows = part.steps_and_rows()
        assert (own_steps + n_steps).tolist() == steps[piece].tolist()
        assert packing.order[own_rows].tolist() == rows[piece].tolist(), "rows of a part are in the packing's order"
        assert part.order.tolist() == list(range(len(lengths)))
        end, n_steps = piece.stop, n_steps + len(part.counts)
    assert end == packing.n_packed and n_steps == len(packing.counts)


@STABLE
@given(lengths=LENGTHS, max_packed=st.integers(1, 40))
def test_parts_are_as_large_as_they_may_be(lengths: list[int], max_packed: int) -> None:
    """One step more would not have gone into a part: fewer parts are less waiting between them."""
    parts = [part for _, part in packed(lengths).parts(max_packed)]
    for part, following in pairwise(parts):
        assert part.n_packed + following.counts[0] > max_packed


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_nothing_is_packed_into_nothing(lengths: list[int]) -> None:
    packing = packed(lengths)
    assert packing.n_packed == 0 and list(packing.parts(8)) == []
    assert packing.last_places().tolist() == list(range(len(lengths)))
