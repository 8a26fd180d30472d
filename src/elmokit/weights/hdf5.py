"""Looking into an HDF5 file of a stranger: plain datasets of its own, of sizes that the file itself bears out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..errors import ElmokitError, WeightsError, all_at_once

if TYPE_CHECKING:
    import h5py

MAX_OBJECTS = 10_000
MAX_DEPTH = 16
MAX_DEFLATE_RATIO = 1100
"""More than deflate can reach: a dataset that claims more was never written."""


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    import h5py

    with reading(path):
        file = h5py.File(path, "r")
    with file:
        yield file


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around HDF5's own code: what it raises over a damaged file has many types and one meaning."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError) as error:
        if isinstance(error, ElmokitError):
            raise
        raise WeightsError(
            f"{path}: damaged or cut off: HDF5 cannot read it ({str(error)[:120]})",
            hint="fetch the file again and compare its size or checksum with the source",
        ) from error


def datasets(file: h5py.File, path: Path) -> dict[str, h5py.Dataset]:
    """Every dataset by its full name. Links to other files are not followed, for they could name any file here."""
    import h5py

    found: dict[str, h5py.Dataset] = {}
    problems: list[str] = []
    queue: list[tuple[str, h5py.Group]] = [("", file)]
    n_objects = 0
    with reading(path):
        while queue:
            prefix, group = queue.pop()
            n_objects += len(group)
            if n_objects > MAX_OBJECTS or prefix.count("/") > MAX_DEPTH:
                raise WeightsError(f"{path}: more groups and datasets than a model has", hint="is it another file?")
            for name in group:
                full = f"{prefix}{name}"
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    problems.append(f"{full} is a link, expected a dataset of this file")
                elif isinstance(item := group[name], h5py.Group):
                    queue.append((f"{full}/", item))
                elif isinstance(item, h5py.Dataset):
                    problems += [f"{full} {problem}" for problem in _unsound(item)]
                    found[full] = item
    if problems:
        raise WeightsError(all_at_once(sorted(problems), str(path)), hint="fetch the file again from its source")
    return dict(sorted(found.items()))


def read_tensor(dataset: h5py.Dataset, path: Path) -> Tensor:
    """The numbers as float32."""
    with reading(path):
        array = np.empty(dataset.shape, dtype=np.float32)
        if array.size:
            dataset.read_direct(array)
    return torch.from_numpy(array)


def _unsound(dataset: h5py.Dataset) -> list[str]:
    """Why a dataset must not be read: what it claims to hold is not in this file."""
    if dataset.is_virtual or dataset.external:
        return ["keeps its numbers in another file"]
    if dataset.dtype.kind != "f" or dataset.shape is None:
        return []  # whoever needs it says what was expected
    stored, claimed = dataset.id.get_storage_size(), math.prod(dataset.shape) * dataset.dtype.itemsize
    allowed = stored * (MAX_DEFLATE_RATIO if dataset.compression else 1)
    if claimed > allowed:
        return [f"claims {claimed:,} bytes, the file holds {stored:,}"]
    return []
