"""For tests of the Triton kernels: on the GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed: Linux only")
