"""Published HDF5 files survive the way through our own format and back: every number, under its usual name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import elmokit

from reference.checkpoints import SHAPES, Case, lstm_folder, random_checkpoint, write_checkpoint
from reference.comparing import read_hdf5

PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


def usual_name(case: Case, name: str) -> str:
    for direction in case.shape.directions:
        for layer in range(case.shape.n_layers):
            theirs = f"{lstm_folder(case, direction, layer)}/"
            if name.startswith(theirs):
                part = name.removeprefix(theirs)
                return f"{lstm_folder(replace(case, names='usual'), direction, layer)}/{PARTS.get(part, part)}"
    return name


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_hdf5_to_native_to_hdf5_is_equal_bit_for_bit(case: Case, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "made", case, seed=3)
    elmokit.write_weights(elmokit.read_weights(tmp_path / "made"), tmp_path / "native")
    elmokit.write_weights(elmokit.read_weights(tmp_path / "native"), tmp_path / "back", format="bilm-hdf5")
    found = read_hdf5(tmp_path / "back" / "weights.hdf5")
    expected = {usual_name(case, name): value for name, value in random_checkpoint(case, 3).items()}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name].view(np.int32), value.view(np.int32), err_msg=name)


def test_options_written_are_options_read_by_others(tmp_path: Path) -> None:
    """What the oracle's own reader makes of them is the shape that the weights were made from."""
    import json

    from reference.numpy_bilm import Shape

    for case in SHAPES:
        write_checkpoint(tmp_path / case.id, case)
        elmokit.write_weights(elmokit.read_weights(tmp_path / case.id), tmp_path / "back", format="bilm-hdf5")
        assert Shape.from_options(json.loads((tmp_path / "back" / "options.json").read_text())) == case.shape, case.id
