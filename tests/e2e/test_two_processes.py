"""Two processes of torchrun train as one with twice the batch."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

import elmokit
from elmokit.settings import to_toml

from pretraining import tiny_settings, write_text


def losses(run: Path) -> list[float]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "train"]


def train(folder: Path, text: Path, *, processes: int, rows: int, state: str, steps: int) -> Path:
    settings = tiny_settings(text, steps=steps, evaluate_every=20)
    settings = dataclasses.replace(
        settings,
        bilm=dataclasses.replace(settings.bilm, state=state),
        batch=dataclasses.replace(settings.batch, rows=rows),
        objective=dataclasses.replace(settings.objective, dropout=0.0),
    )
    recipe = folder / f"recipe{processes}.toml"
    recipe.write_text(to_toml(settings))
    out = folder / f"run{processes}"
    arguments = ["pretrain", str(recipe), "--corpus", str(text), "--out", str(out), "-q"]
    done = torchrun(["-m", "elmokit", *arguments], processes=processes)
    assert done.returncode == 0, done.stderr
    return out


def torchrun(arguments: list[str], *, processes: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=280)


@pytest.mark.parametrize(
    ("state", "steps"), [("carry", 20), pytest.param("zero", 50, marks=pytest.mark.long)], ids=["carry", "zero"]
)
def test_two_processes_equal_one_with_twice_the_rows(tmp_path, state, steps):
    text = write_text(tmp_path / "text.txt")
    one = train(tmp_path, text, processes=1, rows=8, state=state, steps=steps)
    two = train(tmp_path, text, processes=2, rows=4, state=state, steps=steps)
    assert len(losses(one)) == steps
    assert losses(two) == pytest.approx(losses(one), abs=1e-5)
    assert elmokit.load(two).embed(["the cat"])[0].layers.shape == (3, 2, 32)


AFTER_THE_GROUP = """
import torch
from pathlib import Path
from elmokit.pretraining.parallel import process_group, wait_for_all

with process_group(torch.device("cpu")):
    linear = torch.nn.Linear(2, 2)
    torch.optim.AdamW(linear.parameters())  # imports the compiler
    wait_for_all()
names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
assert not [name for name in names if "gloo" in name], names
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux: threads are counted in /proc")
def test_the_group_s_threads_end_with_it(tmp_path):
    """One that lived on aborted finished processes, now and then."""
    script = tmp_path / "script.py"
    script.write_text(AFTER_THE_GROUP)
    done = torchrun([str(script)], processes=2)
    assert done.returncode == 0, done.stderr
