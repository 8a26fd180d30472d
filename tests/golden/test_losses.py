"""The losses of twenty steps of the tiny model. Any change of these numbers needs a line in LOG.md that says why."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from elmokit.pretraining.run import Nobody, pretrain

from pretraining import tiny_settings, write_text

EVERY_FIFTH = {
    "zero": [2.16042, 2.17406, 2.17216, 2.17751],
    "carry": [2.23799, 2.31541, 2.30368, 2.39981],
}


class Losses(Nobody):
    def __init__(self) -> None:
        self.found: list[float] = []

    def stepped(self, progress, loss, left) -> None:
        self.found.append(loss)


@pytest.mark.parametrize("state", EVERY_FIFTH)
def test_twenty_steps_give_the_losses_that_they_always_gave(tmp_path: Path, state: str) -> None:
    settings = tiny_settings(write_text(tmp_path / "text.txt"), steps=20, evaluate_every=20)
    settings = dataclasses.replace(settings, bilm=dataclasses.replace(settings.bilm, state=state))
    losses = Losses()
    pretrain(settings, tmp_path / "run", watch=losses)
    assert losses.found[4::5] == pytest.approx(EVERY_FIFTH[state], abs=2e-4)
