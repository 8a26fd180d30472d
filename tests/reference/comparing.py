"""What the oracle's own tests share: reading HDF5, running a case's sentences, and the largest difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .checkpoints import SENTENCES, Case, vocabulary_ids
from .numpy_bilm import Array, BatchedRun, Weights, embed_sentences


def read_hdf5(path: Path) -> dict[str, Any]:
    """All datasets of a file, under their full names."""
    found: dict[str, Any] = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


def run_all(
    weights: Weights, case: Case, *, sentences: Sequence[Sequence[str]] = SENTENCES, **arguments: Any
) -> BatchedRun:
    """Run the sample sentences through a case's checkpoint."""
    return embed_sentences(weights, case.shape, sentences, vocabulary=vocabulary_ids(case), **arguments)


def largest_difference(left: list[Array], right: list[Array]) -> float:
    """Largest absolute difference between two lists of arrays of the same shapes."""
    return max(float(np.abs(a - b).max()) for a, b in zip(left, right, strict=True) if a.size)
