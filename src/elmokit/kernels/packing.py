"""Rows of unequal length as a list of steps without padding: the longest row first, each step's rows side by side.

Row r of step t stands at `offsets[t] + r`, and rows 0 to `counts[t]` are still running. Forward and backward run the
same rows for the same number of steps, so one packing serves both; they differ in which token stands where.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64
from numpy import ndarray


@dataclass(frozen=True, eq=False)
class Packing:
    """How a batch of rows of these lengths is packed; row numbers are positions in `lengths`."""

    lengths: Int64[ndarray, "row"]

    @cached_property
    def order(self) -> Int64[ndarray, "row"]:
        """The rows, longest first."""
        return np.argsort(-self.lengths, kind="stable")

    @cached_property
    def counts(self) -> Int64[ndarray, "step"]:
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
        ranks = np.arange(self.n_packed) - self.offsets[steps]
        return steps, self.order[ranks]

    @cached_property
    def ranks(self) -> Int64[ndarray, "row"]:
        """Of each row, its number in `order`."""
        ranks = np.empty_like(self.order)
        ranks[self.order] = np.arange(len(self.order))
        return ranks

    def places(self, rows: Int64[ndarray, "*any"], steps: Int64[ndarray, "*any"]) -> Int64[ndarray, "*any"]:
        """Where these rows' steps stand."""
        return self.offsets[steps] + self.ranks[rows]

    def last_places(self) -> Int64[ndarray, "row"]:
        """Where each row's last step stands behind as many starts, in packed order; a row without steps is its start."""
        lengths = self.lengths[self.order]
        own = np.arange(len(lengths))
        if len(self.counts) == 0:
            return own
        return np.where(lengths > 0, len(lengths) + self.offsets[np.maximum(lengths, 1) - 1] + own, own)
