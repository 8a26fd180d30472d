"""Each example runs as it lies there, without arguments, warnings or files left behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTS = {
    "compare_contexts": r"sentences 0 and 1: layer 0 1\.0000  layer 1 0\.\d+  layer 2 0\.\d+",
    "demo": r"cosine   layer 0   layer 1   layer 2",
    "elmo_in_a_tagger": r"weights (\[0\.3333, .*\])\nstep 1: loss \d+\.\d+, weights \[(?!0\.3333)",
    "embed_sentences": r"The river bank flooded \.\n  layers, tokens, numbers: \(3, 5, 32\)",
    "long_text_in_pieces": r"402 tokens in 5 pieces; largest difference from the whole: (0\.0e\+00|\d\.\de-0[7-9])",
    "read_old_checkpoint": r"24,316 parameters, vectors of 32\noptions: options\.json .*\n\[\(3, 2, 32\), \(3, 3",
}


def test_every_example_is_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTS)


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.search(PRINTS[name], done.stdout), done.stdout
    assert not list(tmp_path.iterdir())
