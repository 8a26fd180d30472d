"""What a user gets for a sentence: all layers once, and views of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..settings import check

Vectors = NDArray[Any]


@dataclass(frozen=True, eq=False)
class SentenceVectors:
    """A sentence's tokens and their vectors. Layer 0 is the character CNN; forward is the first half of `dim`."""

    tokens: tuple[str, ...]
    layers: Vectors
    """(layer, token, dim)"""
    offsets: tuple[tuple[int, int] | None, ...] | None = None
    """Where each token stands in the raw text; None where tokens were given."""
    directions: tuple[str, ...] = ("forward", "backward")

    def __repr__(self) -> str:
        tokens = " ".join(self.tokens[:8]) + (" ..." if len(self.tokens) > 8 else "")
        return f"SentenceVectors({tokens!r}, layers={self.layers.shape} {self.layers.dtype})"

    def __len__(self) -> int:
        return len(self.tokens)

    def top(self) -> Vectors:
        """(token, dim) of the last layer."""
        return self.layers[-1]

    def average(self) -> Vectors:
        """(token, dim): the mean of the layers."""
        return self.layers.mean(axis=0)

    def mix(self, weights: Sequence[float], *, gamma: float = 1.0) -> Vectors:
        """(token, dim): gamma times the sum of the layers by these weights, taken as they are."""
        check((len(weights) == len(self.layers), f"{len(self.layers)} layers need as many weights, found {weights}"))
        return np.tensordot(np.asarray(weights, self.layers.dtype) * self.layers.dtype.type(gamma), self.layers, axes=1)

    def layer(self, number: int, *, direction: Literal["both", "forward", "backward"] = "both") -> Vectors:
        """(token, dim) of one layer, or half of it."""
        check((-len(self.layers) <= number < len(self.layers), f"layers are 0 to {len(self.layers) - 1}: {number}"))
        if direction == "both":
            return self.layers[number]
        check((direction in self.directions, f"this model has {' and '.join(self.directions)}, no {direction!r}"))
        half = self.layers.shape[2] // len(self.directions)
        start = half * self.directions.index(direction)
        return self.layers[number, :, start : start + half]

    def pooled(self, how: Literal["mean", "max", "first", "last"] = "mean") -> Vectors:
        """(layer, dim): one vector for the sentence; zeros where it is empty."""
        check((how in ("mean", "max", "first", "last"), f"pooling is mean, max, first or last, found {how!r}"))
        if not self.tokens:
            return np.zeros((len(self.layers), self.layers.shape[2]), self.layers.dtype)
        if how in ("mean", "max"):
            return self.layers.mean(axis=1) if how == "mean" else self.layers.max(axis=1)
        return self.layers[:, 0 if how == "first" else -1]
