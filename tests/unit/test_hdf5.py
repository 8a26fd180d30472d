"""Looking into a stranger's HDF5 file: what is there, and what is refused before it is read."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmokit.errors import ShapeMismatch, WeightsError
from elmokit.weights import hdf5


def test_datasets_are_found_by_their_full_names_in_order(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["b/c/d"] = np.zeros(2, "f4")
        file["a"] = "text"
        file.create_group("empty")
    with hdf5.opened(tmp_path / "x.hdf5") as file:
        assert list(hdf5.datasets(file, tmp_path)) == ["a", "b/c/d"]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_a_tensor_is_float32_whatever_was_stored(dtype: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["x"] = np.array([[0.5, -2.0, 1.25]], dtype)
        file["nothing"] = np.zeros((0, 3), dtype)
        file["scalar"] = np.array(1.5, dtype)
    with hdf5.opened(tmp_path / "x.hdf5") as file:
        assert torch.equal(hdf5.read_tensor(file["x"], tmp_path), torch.tensor([[0.5, -2.0, 1.25]]))
        assert hdf5.read_tensor(file["nothing"], tmp_path).shape == (0, 3)
        assert hdf5.read_tensor(file["scalar"], tmp_path) == torch.tensor(1.5)


def test_every_unsound_dataset_is_named_at_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file.create_dataset("group/huge", (1 << 40,), "f4", chunks=(1,))
        file["link"] = h5py.SoftLink("/elsewhere")
        file["sound"] = np.zeros(3, "f4")
    with hdf5.opened(tmp_path / "x.hdf5") as file, pytest.raises(WeightsError) as caught:
        hdf5.datasets(file, tmp_path / "x.hdf5")
    message = caught.value.message
    assert "2 problems" in message and "sound" not in message.replace("unsound", "")
    assert "group/huge claims 4,398,046,511,104 bytes, the file holds 0" in message
    assert "link is a link" in message


@pytest.mark.parametrize("error", [OSError, RuntimeError, KeyError, ValueError, OverflowError, MemoryError])
def test_whatever_hdf5_raises_has_one_meaning(error: type[Exception]) -> None:
    with (
        pytest.raises(WeightsError, match=r"x\.hdf5: damaged or cut off: HDF5 cannot read it") as caught,
        hdf5.reading(Path("x.hdf5")),
    ):
        raise error("some inner thing")
    assert caught.value.hint and isinstance(caught.value.__cause__, error)


def test_our_own_errors_pass() -> None:
    with pytest.raises(ShapeMismatch, match=r"^mine$"), hdf5.reading(Path("x.hdf5")):
        raise ShapeMismatch("mine")


def test_a_bug_is_not_taken_for_damage() -> None:
    with pytest.raises(AttributeError), hdf5.reading(Path("x.hdf5")):
        raise AttributeError("bug")
