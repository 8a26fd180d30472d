"""Rows of unequal length as a list of steps without padding: the longest row first, each step's rows side by side.

Row number r, counted from the longest, stands at `offsets[t] + r` in step t, and rows 0 to `counts[t]` still run then.
Forward and backward run the same rows for the same number of steps, so that one packing serves both; they differ in
which token stands where.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64
from numpy import ndarray


@dataclass(frozen=True, eq=False)
class Packing:
    """How rows of these lengths are packed. What is `(row,)` goes by the caller's order unless it says otherwise."""

    lengths: Int64[ndarray, "row"]

    @cached_property
    def order(self) -> Int64[ndarray, "row"]:
        """The rows, longest first: the packing's order."""
        return np.argsort(-self.lengths, kind="stable")

    @cached_property
    def ranks(self) -> Int64[ndarray, "row"]:
        """Where each row stands in `order`."""
        ranks = np.empty_like(self.order)
        ranks[self.order] = np.arange(len(self.order))
        return ranks

    @cached_property
    def counts(self) -> Int64[ndarray, "step"]:
        """Rows that run in each step."""
        n_steps = int(self.lengths.max(initial=0))
        return np.searchsorted(-self.lengths[self.order], -np.arange(n_steps), side="left")

    @cached_property
    def offsets(self) -> Int64[ndarray, "step"]:
        return np.cumsum(self.counts) - self.counts

    @property
    def n_packed(self) -> int:
        return int(self.lengths.sum())

    def steps_and_rows(self) -> tuple[Int64[ndarray, "packed"], Int64[ndarray, "packed"]]:
        """Of each packed place: its step, and its row."""
        steps = np.repeat(np.arange(len(self.counts)), self.counts)
        return steps, self.order[np.arange(self.n_packed) - self.offsets[steps]]

    def places(self, rows: Int64[ndarray, "*any"], steps: Int64[ndarray, "*any"]) -> Int64[ndarray, "*any"]:
        """Where these rows' steps stand."""
        return self.offsets[steps] + self.ranks[rows]

    def last_places(self) -> Int64[ndarray, "row"]:
        """In the packing's order: where a row's last step stands behind all rows' starts. Without steps, its start."""
        lengths = self.lengths[self.order]
        n_running = int((lengths > 0).sum())
        places = np.arange(len(lengths))
        places[:n_running] += len(lengths) + self.offsets[lengths[:n_running] - 1]
        return places

    def parts(self, max_packed: int) -> Iterator[tuple[slice, Packing]]:
        """Pieces of consecutive steps, one step at least, each a packing of its own whose rows are in this order."""
        lengths, n_steps, first = self.lengths[self.order], len(self.counts), 0
        while first < n_steps:
            limit = self.offsets[first] + max_packed
            last = max(first + 1, int(np.searchsorted(self.offsets + self.counts, limit, side="right")))
            end = int(self.offsets[last]) if last < n_steps else self.n_packed
            yield slice(int(self.offsets[first]), end), Packing(np.clip(lengths - first, 0, last - first))
            first = last
