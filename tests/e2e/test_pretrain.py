"""A run from text to a model: what it learns, what it writes, how it stops and goes on."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import torch

import elmokit
from elmokit.cli import run as command_line
from elmokit.errors import DataError, MissingExtra, RunError
from elmokit.pretraining.loop import Diverged, Trainer
from elmokit.pretraining.run import Nobody, pretrain
from elmokit.pretraining.settings import ScheduleSettings
from elmokit.settings import to_toml

from pretraining import tiny_settings, write_text


class Listener(Nobody):
    """Remembers what is said, and can act after a step."""

    def __init__(self, after_step=None) -> None:
        self.said: list[str] = []
        self.losses: list[float] = []
        self.after_step = after_step

    def say(self, message: str) -> None:
        self.said.append(message)

    def stepped(self, progress, loss, left) -> None:
        self.losses.append(loss)
        if self.after_step is not None:
            self.after_step(progress.step)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_text(tmp_path / "text.txt")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(elmokit.read_weights(folder).tensors)


def assert_same_weights(a: Path, b: Path) -> None:
    ours, theirs = weights(a), weights(b)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


def test_a_run_learns_and_leaves_a_model_that_loads(text, tmp_path):
    result = pretrain(tiny_settings(text, steps=60, evaluate_every=20), tmp_path / "run")
    assert result["perplexity"] < 6  # of 14 words; the grammar's own is about 2.6
    events = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [e["step"] for e in events if e["event"] == "valid"] == [20, 40, 60]
    embedder = elmokit.load(tmp_path / "run")
    assert embedder.embed(["the cat sees"])[0].tokens == ("the", "cat", "sees")
    assert embedder.state == "zero"
    (word, p), *_ = embedder.substitutes(["the", "cat", "sees", "the", "dog", "."], 3, n=3)
    assert word == "the" and p > 0.5


def test_a_finished_run_says_so_and_does_nothing(text, tmp_path):
    settings = tiny_settings(text)
    first = pretrain(settings, tmp_path / "run")
    before = (tmp_path / "run/metrics.jsonl").read_bytes()
    listener = Listener()
    assert pretrain(settings, tmp_path / "run", watch=listener) == first
    assert "is finished" in listener.said[0] and not listener.losses
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_a_run_that_was_stopped_goes_on_to_the_very_same_weights(text, tmp_path, state):
    settings = tiny_settings(text)
    settings = dataclasses.replace(settings, bilm=dataclasses.replace(settings.bilm, state=state))
    pretrain(settings, tmp_path / "whole")

    def stop(step: int) -> None:
        if step in (3, 4, 9):
            os.kill(os.getpid(), signal.SIGINT)

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            pretrain(settings, tmp_path / "parts", watch=Listener(stop))
    pretrain(settings, tmp_path / "parts")
    for name in ("best", "last"):
        assert_same_weights(tmp_path / "whole" / name, tmp_path / "parts" / name)


def kill_and_resume(text: Path, folder: Path, *, kills: int, seed: int) -> None:
    """Run the command, kill it at random moments, and let it finish."""
    (folder / "recipe.toml").write_text(to_toml(tiny_settings(text, steps=40)))
    command = [sys.executable, "-m", "elmokit", "pretrain", "recipe.toml", "--corpus", str(text), "--out", "run", "-q"]
    chance = random.Random(seed)
    for _ in range(kills):
        process = subprocess.Popen(command, cwd=folder)
        deadline = time.monotonic() + chance.uniform(1.5, 5.0)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
    subprocess.run(command, cwd=folder, check=True)


def test_a_run_that_was_killed_ends_with_the_weights_of_one_that_was_not(text, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    kill_and_resume(text, tmp_path / "a", kills=0, seed=0)
    kill_and_resume(text, tmp_path / "b", kills=2, seed=1)
    for name in ("best", "last"):
        assert_same_weights(tmp_path / "a/run" / name, tmp_path / "b/run" / name)


@pytest.mark.long
def test_fifty_kills(text, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    kill_and_resume(text, tmp_path / "a", kills=0, seed=0)
    kill_and_resume(text, tmp_path / "b", kills=50, seed=2)
    for name in ("best", "last"):
        assert_same_weights(tmp_path / "a/run" / name, tmp_path / "b/run" / name)


def stopped_after(settings, folder: Path, step: int) -> None:
    def stop(done: int) -> None:
        if done == step:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pretrain(settings, folder, watch=Listener(stop))


def test_of_a_damaged_checkpoint_the_one_before_is_used_and_it_says_so(text, tmp_path):
    settings = tiny_settings(text)
    pretrain(settings, tmp_path / "whole")
    stopped_after(settings, tmp_path / "run", 6)
    newest = max((tmp_path / "run/checkpoints").glob("step-*"))
    with (newest / "weights.safetensors").open("r+b") as file:
        file.truncate(100)
    listener = Listener()
    pretrain(settings, tmp_path / "run", watch=listener)
    assert any("damaged" in said for said in listener.said)
    assert_same_weights(tmp_path / "whole/last", tmp_path / "run/last")


def test_other_settings_are_refused_with_the_differences(text, tmp_path):
    settings = tiny_settings(text)
    stopped_after(settings, tmp_path / "run", 5)
    with pytest.raises(RunError, match=r"seed was 0, is now 7"):
        pretrain(dataclasses.replace(settings, seed=7), tmp_path / "run")


def test_a_changed_corpus_is_refused_by_name(text, tmp_path):
    settings = tiny_settings(text)
    stopped_after(settings, tmp_path / "run", 5)
    text.write_text(text.read_text() + "more\n")
    with pytest.raises(DataError, match=r"text\.txt"):
        pretrain(settings, tmp_path / "run")


def test_an_empty_corpus_is_refused_and_leaves_room_for_another_try(tmp_path):
    (tmp_path / "text.txt").write_text("\n\n")
    with pytest.raises(DataError):
        pretrain(tiny_settings(tmp_path / "text.txt"), tmp_path / "run")
    write_text(tmp_path / "text.txt")
    pretrain(tiny_settings(tmp_path / "text.txt"), tmp_path / "run")


def test_ctrl_c_in_a_step_that_is_due_for_evaluation_does_not_skip_it(text, tmp_path):
    """It once did, for good, and another model was the best one."""
    settings = tiny_settings(text)
    pretrain(settings, tmp_path / "whole")
    stopped_after(settings, tmp_path / "parts", 4)
    pretrain(settings, tmp_path / "parts")
    steps = [
        [
            json.loads(line)["step"]
            for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()
            if '"valid"' in line
        ]
        for name in ("whole", "parts")
    ]
    assert steps[0] == steps[1] == [4, 8, 12]
    assert_same_weights(tmp_path / "whole/best", tmp_path / "parts/best")


def test_where_no_checkpoint_is_whole_the_run_stops_and_keeps_its_best_model(text, tmp_path):
    settings = tiny_settings(text)
    stopped_after(settings, tmp_path / "run", 9)
    for folder in (tmp_path / "run/checkpoints").glob("step-*"):
        (folder / "weights.safetensors").write_bytes(b"")
    with pytest.raises(RunError, match="no checkpoint is whole"):
        pretrain(settings, tmp_path / "run")
    assert elmokit.load(tmp_path / "run").embed(["the cat"])[0].layers.shape == (3, 2, 32)


def test_two_processes_cannot_run_in_one_folder(text, tmp_path):
    def again(step: int) -> None:
        if step == 2:
            with pytest.raises(RunError, match="in use"):
                pretrain(tiny_settings(text), tmp_path / "run")

    pretrain(tiny_settings(text), tmp_path / "run", watch=Listener(again))


def test_a_mistyped_path_does_not_spoil_the_folder(text, tmp_path):
    with pytest.raises(DataError):
        pretrain(tiny_settings(tmp_path / "txet.txt"), tmp_path / "run")
    pretrain(tiny_settings(text), tmp_path / "run")


def test_preparation_counts_towards_the_minutes(text, tmp_path, monkeypatch):
    from elmokit.pretraining import preparation as module

    real = module.build_store
    monkeypatch.setattr(module, "build_store", lambda *a, **k: (time.sleep(3.1), real(*a, **k))[1])
    settings = dataclasses.replace(tiny_settings(text), schedule=ScheduleSettings(minutes=0.05, evaluate_every=5))
    result = pretrain(settings, tmp_path / "run")
    assert result["step"] == 0 and result["seconds"] > 3


@pytest.mark.parametrize(
    "change",
    ["schedule.steps=0", "schedule.patience=-1", "optimizer.beta2=2", "seed=-1", "optimizer.weight_decay=-1",
     "corpus.valid_share=0", "optimizer.loss_scale=0", "schedule.valid_tokens=0"],
)  # fmt: skip
def test_nonsense_is_refused_before_anything_is_made(text, tmp_path, capsys, change):
    line = ["pretrain", "tiny-cpu", "--corpus", str(text), "--out", str(tmp_path / "run"), "--set", change]
    assert command_line(line) == 2
    error = capsys.readouterr().err
    assert change.split("=")[0].split(".")[-1] in error and error.count("hint:") == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_something_else_is_left_alone(text, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="not empty"):
        pretrain(tiny_settings(text), tmp_path / "run")


def test_a_loss_that_is_not_a_number_rolls_back_at_half_the_rate(text, tmp_path, monkeypatch):
    real, failed = Trainer.step, []

    def step(self, share):
        if self.progress.step == 6 and not failed:
            failed.append(True)
            with torch.no_grad():
                next(self.objective.parameters()).fill_(math.nan)
        return real(self, share)

    monkeypatch.setattr(Trainer, "step", step)
    listener = Listener()
    result = pretrain(tiny_settings(text), tmp_path / "run", watch=listener)
    assert any("back to step 4 at half the rate" in said for said in listener.said)
    assert math.isfinite(result["perplexity"]) and result["step"] == 12


@pytest.mark.parametrize("ruin", [lambda w: w * 1e20, lambda w: w * math.inf], ids=["huge", "not a number"])
def test_an_update_that_ruins_the_model_before_it_is_evaluated_is_never_saved(text, tmp_path, monkeypatch, ruin):
    """A step's loss tells of the weights before it: the ruined ones became the checkpoint that all went back to."""
    real, ruined = Trainer.step, []

    def step(self, share):
        real(self, share)
        if self.progress.step == 8 and not ruined:
            ruined.append(True)
            with torch.no_grad():
                for weight in self.objective.parameters():
                    weight.copy_(ruin(weight))

    monkeypatch.setattr(Trainer, "step", step)
    listener = Listener()
    result = pretrain(tiny_settings(text), tmp_path / "run", watch=listener)
    assert any("back to step 4 at half the rate" in said for said in listener.said)
    assert math.isfinite(result["perplexity"]) and result["step"] == 12
    steps = [
        e["step"]
        for e in map(json.loads, (tmp_path / "run/metrics.jsonl").read_text().splitlines())
        if e["event"] == "train"
    ]
    assert steps == list(range(1, 13))


def test_a_run_that_diverges_again_and_again_gives_up_with_a_hint(text, tmp_path, monkeypatch):
    def settle(self):
        raise Diverged("the loss is nan")

    monkeypatch.setattr(Trainer, "settle", settle)
    with pytest.raises(RunError, match="4 times"):
        pretrain(tiny_settings(text), tmp_path / "run")


def test_a_full_disk_loses_nothing_that_was_there(text, tmp_path, monkeypatch):
    settings = tiny_settings(text)
    real = Trainer.save

    def save(self, folder):
        real(self, folder)
        if self.progress.step == 8:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Trainer, "save", save)
    with pytest.raises(OSError, match="No space"):
        pretrain(settings, tmp_path / "run")
    monkeypatch.undo()
    pretrain(settings, tmp_path / "run")
    pretrain(settings, tmp_path / "whole")
    assert_same_weights(tmp_path / "whole/last", tmp_path / "run/last")


def test_tensorboard_without_its_package_says_what_to_install(text, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"pip install 'elmokit\[tensorboard\]'"):
        pretrain(tiny_settings(text, tensorboard=True), tmp_path / "run")


def test_tensorboard_gets_each_number_as_a_curve(text, tmp_path, monkeypatch):
    curves: dict[str, list[int]] = {}

    class Writer:
        def __init__(self, folder: str) -> None:
            assert folder.endswith("tensorboard")

        def add_scalar(self, name: str, value: float, step: int) -> None:
            curves.setdefault(name, []).append(step)

        def flush(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=Writer))
    pretrain(tiny_settings(text, tensorboard=True), tmp_path / "run")
    assert curves["valid/perplexity"] == [4, 8, 12]
    assert curves["train/loss"] == list(range(1, 13))


def test_patience_ends_a_run_that_does_not_get_better(text, tmp_path):
    settings = tiny_settings(text)
    optimizer = dataclasses.replace(settings.optimizer, learning_rate=1e-12)
    schedule = ScheduleSettings(steps=1000, evaluate_every=2, patience=3)
    result = pretrain(dataclasses.replace(settings, optimizer=optimizer, schedule=schedule), tmp_path / "run")
    assert result["step"] < 40


def test_minutes_end_a_run_and_count_over_resumes(text, tmp_path):
    settings = dataclasses.replace(tiny_settings(text), schedule=ScheduleSettings(minutes=0.1, evaluate_every=10))
    stopped_after(settings, tmp_path / "run", 5)
    started = time.monotonic()
    result = pretrain(settings, tmp_path / "run")
    assert time.monotonic() - started < 60
    assert result["step"] > 5 and result["seconds"] > 3


def test_the_command_line_trains_and_measures(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = ["pretrain", "tiny-cpu", "--corpus", str(text), "--valid", str(text), "--tokenizer", "whitespace"]
    changes = ["lstm.dim=32", "token_dim=16", "batch.rows=8", "schedule.evaluate_every=5", "objective.softmax=full"]
    line += ["--out", "runs/x", "--steps", "10", *(part for change in changes for part in ("--set", change))]
    assert command_line(line) == 0
    assert "elmokit.load('runs/x')" in capsys.readouterr().err
    assert Path("runs/x/README.md").is_file()
    assert command_line(["perplexity", str(text), "--model", "runs/x", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"forward", "backward", "perplexity", "tokens", "oov_share", "bits_per_character"} <= set(found)
    assert found["perplexity"] == pytest.approx(math.sqrt(found["forward"] * found["backward"]))
    assert found["tokens"] == 400 * 7
    result = json.loads(Path("runs/x/result.json").read_text())
    assert found["perplexity"] == pytest.approx(result["perplexity"], rel=1e-4)
    assert command_line(["perplexity", str(text), "--model", "random-tiny"]) == 2
    assert "softmax" in capsys.readouterr().err
