"""The engine with its Triton kernels against `BiLM.forward`: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from elmokit import BiLM, BiLMConfig
from elmokit.kernels import characters, engine, fused, recurrence
from elmokit.kernels.engine import Engine
from elmokit.model.batch import BiLMState, with_marks

from kernels import DEVICE, needs_triton

SENTENCES = [["the"], ["a", "river", "bank", "flooded", "again"], [], ["the", "bank"], ["yes"] * 7, ["a", "b", "c"]]


def model(**lstm: object) -> BiLM:
    torch.manual_seed(0)
    tiny = BiLMConfig.tiny()
    bilm = BiLM(dataclasses.replace(tiny, lstm=dataclasses.replace(tiny.lstm, **lstm))).to(DEVICE).eval()
    for name, weight in bilm.named_parameters():
        if "lstm" in name:
            torch.nn.init.normal_(weight, std=0.5)
    return bilm


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "can_run", lambda *_, **__: True)
    monkeypatch.setattr(engine, "fastest", lambda *_: characters.convolved)


@needs_triton
@pytest.mark.parametrize("gates_bytes", [1 << 30, 4096], ids=["at once", "in pieces"])
@pytest.mark.parametrize(
    "lstm",
    [{}, {"cell_clip": 0.2, "proj_clip": 0.1}, {"cell_clip": None, "proj_clip": None, "skip": False}],
    ids=["published", "clips that bite", "plain"],
)
def test_layers_and_states_are_the_models(kernels, monkeypatch, gates_bytes, lstm):
    monkeypatch.setattr(recurrence, "GATES_BYTES", gates_bytes)
    bilm = model(**lstm)
    batch = bilm.encode(SENTENCES)
    zero = bilm.start("zero", len(SENTENCES))
    state = BiLMState(*(torch.randn_like(part).clamp(-0.2, 0.2) for part in (zero.cell, zero.hidden)))
    with torch.no_grad():
        expected = bilm(batch, state)
    made = Engine(bilm)
    assert all(layer.fused for layer in made.layers) and made.convolve is not None
    layers, mask, (cell, hidden) = made.padded(
        batch, with_marks(batch.index), (state.cell, state.hidden), drop_marks=True
    )
    assert torch.equal(mask, expected.mask)
    for found, right in ((layers, expected.layers), (cell, expected.state.cell), (hidden, expected.state.hidden)):
        assert (found - right).abs().max() <= 3e-6 * right.abs().max()


@needs_triton
def test_one_direction_and_no_projection(kernels):
    torch.manual_seed(0)
    tiny = BiLMConfig.tiny()
    lstm = dataclasses.replace(tiny.lstm, projection=False, dim=16)
    bilm = BiLM(dataclasses.replace(tiny, lstm=lstm, directions=("backward",))).to(DEVICE).eval()
    batch = bilm.encode(SENTENCES)
    zero = bilm.start("zero", len(SENTENCES))
    with torch.no_grad():
        expected = bilm(batch, zero).layers
    layers, _, _ = Engine(bilm).padded(batch, with_marks(batch.index), (zero.cell, zero.hidden), drop_marks=True)
    assert (layers - expected).abs().max() <= 3e-6 * expected.abs().max()
