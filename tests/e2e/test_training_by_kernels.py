"""Training with the Triton kernels goes where training without them goes."""

from __future__ import annotations

import dataclasses

import pytest

from elmokit.kernels import characters, fused, logits
from elmokit.pretraining import objective, run
from elmokit.pretraining.run import Nobody, pretrain

from kernels import DEVICE, needs_triton
from pretraining import tiny_settings, write_text

STEPS = 200 if DEVICE == "cuda" else 4  # the interpreter takes half a second for a step


class Losses(Nobody):
    def __init__(self) -> None:
        self.found: list[float] = []

    def stepped(self, progress, loss, left) -> None:
        self.found.append(loss)


@needs_triton
@pytest.mark.parametrize("state", ["zero", pytest.param("carry", marks=pytest.mark.long)])
def test_the_curve_is_that_of_the_plain_path(tmp_path, monkeypatch, state):
    text = write_text(tmp_path / "text.txt")
    settings = tiny_settings(text, steps=STEPS, evaluate_every=20, device=DEVICE)
    lstm = dataclasses.replace(settings.bilm.lstm, dim=32)
    bilm = dataclasses.replace(settings.bilm, state=state, lstm=lstm, token_dim=16)
    loss = dataclasses.replace(settings.objective, dropout=0.0)
    schedule = dataclasses.replace(settings.schedule, valid_tokens=20, last_valid_tokens=20)
    batch = dataclasses.replace(settings.batch, rows=4, steps=5)
    settings = dataclasses.replace(settings, bilm=bilm, objective=loss, batch=batch, schedule=schedule)
    monkeypatch.setattr(run, "PROBE_STEPS", 1)
    curves, launches = {}, []
    for path in ("plain", "kernels"):
        is_on = path == "kernels"
        monkeypatch.setattr(fused, "can_run", lambda *_, is_on=is_on, **__: is_on)
        monkeypatch.setattr(logits, "is_fused", lambda _, is_on=is_on: is_on)
        monkeypatch.setattr(objective, "fastest", lambda *_, is_on=is_on: _counted(launches) if is_on else None)
        curves[path] = Losses()
        pretrain(settings, tmp_path / path, watch=curves[path])
    assert len(curves["plain"].found) == STEPS <= len(launches)
    assert curves["kernels"].found == pytest.approx(curves["plain"].found, abs=1e-4 if DEVICE == "cpu" else 2e-2)


def _counted(launches):
    def convolved(*arguments):
        launches.append(1)
        return characters.convolved(*arguments)

    return convolved
