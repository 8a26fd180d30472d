"""The published training, which the recipe `original` switches on, piece by piece (bilm-tf's `training.py`)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from elmokit.model.batch import BiLMState
from elmokit.model.bilm import BiLM
from elmokit.model.config import LSTMConfig
from elmokit.model.lstm import LSTMStack
from elmokit.pretraining import windows
from elmokit.pretraining.batches import Batches, Position
from elmokit.pretraining.loop import Trainer, learning_rate
from elmokit.pretraining.objective import Objective
from elmokit.pretraining.preparation import complete_config
from elmokit.pretraining.settings import PretrainSettings
from elmokit.pretraining.store import build_store
from elmokit.recipes import read_recipe
from elmokit.settings import from_plain

from pretraining import tiny_settings, write_text

ORIGINAL = from_plain(PretrainSettings, read_recipe("original"), where="original")
CLIP = 3.0


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    """The tiny model under the published optimizer and objective, without chance."""
    text = write_text(tmp_path / "text.txt")
    # So small a model's gradients would not be clipped at 10.
    settings = tiny_settings(text, optimizer=dataclasses.replace(ORIGINAL.optimizer, clip_norm=CLIP))
    settings = dataclasses.replace(settings, objective=dataclasses.replace(settings.objective, dropout=0.0))
    store = build_store(settings.corpus.paths, tmp_path / "store", text=settings.bilm.text, workers=1)
    config = complete_config(settings, store)
    torch.manual_seed(0)
    objective = Objective(BiLM(config, store.vocabulary), settings.objective)
    batches = Batches(store, config, rows=8, steps=10, block_tokens=1 << 20, seed=0)
    return Trainer(objective, batches, settings, device=torch.device("cpu"))


def test_the_shape_and_the_numbers_are_the_published_ones():
    config = ORIGINAL.bilm
    assert (config.token_dim, config.lstm.dim, config.n_highway) == (512, 4096, 2)
    assert (config.lstm.cell_clip, config.lstm.proj_clip, config.lstm.skip, config.state) == (3.0, 3.0, True, "carry")
    assert config.characters is not None and config.characters.max_characters_per_token == 50
    assert not ORIGINAL.corpus.fit_token_length
    assert (ORIGINAL.batch.rows, ORIGINAL.batch.steps) == (128, 20)
    assert (ORIGINAL.optimizer.name, ORIGINAL.optimizer.clip_norm, ORIGINAL.optimizer.loss_scale) == ("adagrad", 10, 20)
    assert (ORIGINAL.objective.n_samples, ORIGINAL.objective.dropout) == (8192, 0.1)


def test_the_rate_has_no_schedule():
    assert {learning_rate(ORIGINAL.optimizer, share) for share in (0.0, 0.01, 0.5, 1.0)} == {0.2}


def test_a_step_is_adagrad_from_one_on_twenty_times_the_loss_clipped(trainer):
    """w - 0.2 g / sqrt(1 + g^2), where g is the gradient of 20 x the mean of both directions, clipped."""
    objective = trainer.objective
    before = {name: p.detach().clone() for name, p in objective.bilm.named_parameters()}
    batch, _ = next(trainer.batches(Position()))
    losses = objective(batch, trainer.state, seed=(0, 0, 0, 0))
    parameters = dict(objective.bilm.named_parameters())
    gradients = torch.autograd.grad(20 * losses.directions.sum() / 2, list(parameters.values()))
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    assert norm > CLIP, "the clip must bite for this to say anything"
    trainer.step(0.5)
    for (name, after), gradient in zip(parameters.items(), gradients, strict=True):
        g = gradient * (CLIP / norm)
        expected = before[name] - 0.2 * g / torch.sqrt(1 + g.square())
        torch.testing.assert_close(after.detach(), expected, atol=2e-6, rtol=1e-4, msg=name)


def test_dropout_is_on_a_layers_input_and_so_on_what_the_skip_connection_adds(monkeypatch):
    """bilm-tf wraps the residual cell: what is dropped is missing from the sum as well."""
    stack = LSTMStack(LSTMConfig(dim=8), token_dim=4)
    calls = []

    def drop_behind_the_first_layer(x, p):
        calls.append(p)
        return torch.zeros_like(x) if len(calls) == 2 else x

    monkeypatch.setattr(windows.F, "dropout", drop_behind_the_first_layer)
    state = BiLMState(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 4))
    output, _ = windows.run_stacks([stack], torch.randn(1, 5, 3, 4), state, begins=None, dropout=0.1)
    nothing, _ = stack.layers[1](torch.zeros(3, 5, 4), (torch.zeros(3, 8), torch.zeros(3, 4)))
    torch.testing.assert_close(output[0].transpose(0, 1), nothing)
    assert calls == [0.1] * 3  # before layer 1, before layer 2, on the output


def test_the_state_is_carried_and_no_gradient_with_it(trainer):
    config = dataclasses.replace(trainer.objective.bilm.config, state="carry")
    trainer.objective.bilm.config = config
    trainer.step(0.5)
    assert trainer.state.cell.abs().max() > 0
    assert not trainer.state.cell.requires_grad
