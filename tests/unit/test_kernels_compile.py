"""Every Triton kernel compiles for the GPUs that it is offered to, and asks for no more memory than they have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kernels import needs_triton

SCRIPT = Path(__file__).parents[1] / "compile_kernels.py"


@needs_triton
def test_the_kernels_compile_and_fit_the_shared_memory(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 28
    assert [facts for facts in found if facts["shared"] > facts["allowed"]] == []
