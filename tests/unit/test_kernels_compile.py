"""Every Triton kernel compiles for the GPUs that it is offered to, and asks for no more memory than they have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import needs_triton

SCRIPT = Path(__file__).parents[1] / "compile_kernels.py"


@needs_triton
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=pytest.mark.long)])
def test_the_kernels_compile_and_fit_the_shared_memory(tmp_path, dtype):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, str(SCRIPT), dtype]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 14
    assert [facts for facts in found if facts["shared"] > facts["allowed"]] == []
