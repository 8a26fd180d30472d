"""What every suite shares. The signatures of the model and the engine are checked in tests, and free in production."""

from __future__ import annotations

import os

# Tests run side by side, in processes of their own and in those that they start: one thread each.
os.environ["OMP_NUM_THREADS"] = "1"

from jaxtyping import install_import_hook

install_import_hook(
    ["elmokit.model", "elmokit.kernels.engine", "elmokit.kernels.packing", "elmokit.kernels.word_table"],
    "beartype.beartype",
)

import pytest  # noqa: E402
import torch  # noqa: E402

from elmokit import BiLM  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture
def tiny() -> BiLM:
    """The random tiny model."""
    import elmokit

    return elmokit.load_bilm("random-tiny")
