"""What a task learns of the layers: against the oracle, and what can be fixed, dropped or held back."""

from __future__ import annotations

from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from torch import Tensor

from elmokit import ScalarMix
from elmokit.errors import SettingsError

from reference.numpy_bilm import scalar_mix

LENGTHS = (4, 1, 0, 6)
MASK = torch.arange(6) < torch.tensor(LENGTHS)[:, None]


def random_layers(n_layers: int = 3, *, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    layers = torch.randn(n_layers, 4, 6, 5, dtype=torch.float64) + torch.arange(n_layers)[:, None, None, None]
    return layers * MASK[None, :, :, None]


@pytest.mark.parametrize("layer_norm", [None, "batch", "token"])
@pytest.mark.parametrize("initial", [None, [0.3, -1.2, 2.0]])
def test_mixes_are_the_oracles(layer_norm: Any, initial: Any) -> None:
    mix, layers = ScalarMix(3, layer_norm=layer_norm, initial=initial).double(), random_layers()
    with torch.no_grad():
        mix.gamma.fill_(1.7)
    found = mix(layers, MASK)
    sentences = [layers[:, i, :n].numpy() for i, n in enumerate(LENGTHS)]
    scores = mix.scores.tolist()
    for i, expected in enumerate(scalar_mix(sentences, scores, gamma=1.7, layer_norm=layer_norm)):
        np.testing.assert_allclose(found[i, : LENGTHS[i]].detach().numpy(), expected, rtol=0, atol=1e-12)
    assert not found[~MASK].any()


@pytest.mark.parametrize("layer_norm", [None, "batch", "token"])
def test_without_a_mask_all_is_real(layer_norm: Any) -> None:
    mix, layers = ScalarMix(layer_norm=layer_norm).double(), random_layers()
    torch.testing.assert_close(mix(layers), mix(layers, torch.ones_like(MASK)), rtol=0, atol=0)


@pytest.mark.parametrize("layer_norm", [None, "batch", "token"])
def test_padding_changes_nothing(layer_norm: Any) -> None:
    """Also where it is not zero, as a caller's own layers may have it."""
    mix, layers = ScalarMix(layer_norm=layer_norm).double(), random_layers()
    dirty = layers + 100.0 * ~MASK[None, :, :, None]
    wider = torch.nn.functional.pad(layers, (0, 0, 0, 3))
    expected = mix(layers, MASK)
    torch.testing.assert_close(mix(dirty, MASK)[MASK], expected[MASK], rtol=0, atol=1e-13)
    found = mix(wider, torch.nn.functional.pad(MASK, (0, 3)))
    torch.testing.assert_close(found[:, :6], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("layer_norm", ["batch", "token"])
def test_a_batch_of_empty_sentences_is_zero(layer_norm: Any) -> None:
    """The mean of no token at all was NaN."""
    mix = ScalarMix(layer_norm=layer_norm)
    mixed = mix(torch.zeros(3, 2, 2, 5), torch.zeros(2, 2, dtype=torch.bool))
    assert torch.equal(mixed, torch.zeros(2, 2, 5))
    mixed.sum().backward()
    assert mix.gamma.grad is not None and mix.gamma.grad.isfinite().all()


def test_it_begins_as_the_mean() -> None:
    mix, layers = ScalarMix(4).double(), random_layers(4)
    assert mix.gamma.tolist() == [1.0]
    assert torch.equal(mix.weights(), torch.full((4,), 0.25, dtype=torch.float64))
    torch.testing.assert_close(mix(layers), layers.mean(dim=0), rtol=0, atol=1e-14)


def test_weights_are_shares_of_the_initial_scores() -> None:
    mix = ScalarMix(3, initial=[0.0, 1.0, 2.0])
    torch.testing.assert_close(mix.weights(), torch.tensor([0.0, 1.0, 2.0]).softmax(0))
    assert mix.weights().sum().item() == pytest.approx(1.0)


def test_it_learns_or_stays_as_it_is() -> None:
    learned, fixed = ScalarMix(), ScalarMix(trainable=False, initial=[1.0, 0.0, 0.0])
    learned(random_layers().float()).square().sum().backward()
    assert learned.scores.grad is not None and learned.scores.grad.any()
    assert learned.gamma.grad is not None and learned.gamma.grad.any()
    assert not fixed(random_layers().float()).requires_grad
    assert len(fixed.state_dict()) == 2


def test_dropout_leaves_out_whole_layers_but_never_all() -> None:
    mix = ScalarMix(3, dropout=0.8).train()
    layers = torch.eye(3).reshape(3, 1, 1, 3)
    torch.manual_seed(0)
    seen = {tuple(share > 0 for share in mix(layers)[0, 0].tolist()) for _ in range(300)}
    assert len(seen) == 7, "each choice of layers but none"
    for _ in range(50):
        assert mix(layers).sum().item() == pytest.approx(1.0)


def test_dropout_is_for_training() -> None:
    mix, layers = ScalarMix(3, dropout=0.9).double(), random_layers()
    whole = ScalarMix(3).double()(layers)
    assert all(torch.equal(mix.eval()(layers), whole) for _ in range(20))
    mix.train()(layers).sum().backward()
    assert mix.scores.grad is not None and mix.scores.grad.isfinite().all()


def trained(l2: float) -> tuple[ScalarMix, float]:
    """A toy task that is best solved by the last layer."""
    torch.manual_seed(0)
    mix, layers = ScalarMix(3), torch.randn(3, 8, 5, 4)
    optimizer = torch.optim.Adam(mix.parameters(), lr=0.05)
    error = torch.tensor(0.0)
    for _ in range(200):
        optimizer.zero_grad()
        error = (mix(layers) - layers[2]).square().mean()
        (error + mix.penalty(l2)).backward()
        optimizer.step()
    return mix, float(error.detach())


def test_a_large_lambda_gives_the_mean_of_the_layers() -> None:
    free, error = trained(0.0)
    assert free.weights()[2] > 0.9 and error < 0.05
    held, _ = trained(100.0)
    torch.testing.assert_close(held.weights(), torch.full((3,), 1 / 3), rtol=0, atol=5e-3)
    slightly, _ = trained(0.01)
    assert held.weights()[2] < slightly.weights()[2] < free.weights()[2]


def test_the_penalty_is_lambda_times_the_squares() -> None:
    assert ScalarMix(3, initial=[1.0, -2.0, 0.5]).penalty(0.1).item() == pytest.approx(0.525)
    assert ScalarMix(3).penalty(7.0).item() == 0.0


def test_the_top_alone() -> None:
    mix, layers = ScalarMix.top(3).double(), random_layers()
    assert mix.weights().tolist() == [0.0, 0.0, 1.0]
    assert torch.equal(mix(layers), layers[-1])
    mix(layers).sum().backward()
    assert mix.scores.grad is None
    assert mix.gamma.grad is not None and mix.gamma.grad.any(), "the scale is learned"
    assert ScalarMix.top(1).weights().tolist() == [1.0]


@pytest.mark.parametrize("n_found", [2, 4])
def test_a_wrong_number_of_layers_is_an_error(n_found: int) -> None:
    with pytest.raises(SettingsError, match=f"this mix is for 3 layers, found {n_found}"):
        ScalarMix(3)(torch.zeros(n_found, 1, 2, 4))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_layers": 0}, "n_layers must be positive, found 0"),
        ({"layer_norm": "layer"}, "None, 'batch' or 'token', found 'layer'"),
        ({"initial": [1.0, 2.0]}, "initial needs 3 scores, found 2"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), found 1.0"),
        ({"dropout": -0.1}, "dropout must be in"),
    ],
)
def test_what_no_mix_can_be_is_refused(wrong: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(SettingsError, match=message):
        ScalarMix(**wrong)


@pytest.mark.parametrize("layer_norm", [None, "batch", "token"])
def test_gradients_are_right(layer_norm: Any) -> None:
    mix = ScalarMix(3, layer_norm=layer_norm, initial=[0.1, 0.5, -0.2]).double()
    layers = random_layers().requires_grad_()

    def run(layers: Tensor, *_: Tensor) -> Tensor:
        mixed: Tensor = mix(layers, MASK)
        return mixed[MASK]

    assert torch.autograd.gradcheck(run, (layers, mix.scores, mix.gamma), fast_mode=True)


def test_low_precision_layers_are_mixed_by_the_same_shares() -> None:
    layers = random_layers().float()
    mixed = ScalarMix(3, initial=[0.5, 0.0, -0.5])(layers.bfloat16())
    torch.testing.assert_close(mixed.float(), ScalarMix(3, initial=[0.5, 0.0, -0.5])(layers), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layer_norm", ["batch", "token"])
def test_low_precision_layers_are_normalised_in_full(layer_norm: Any, dtype: torch.dtype) -> None:
    """In float16 the sum of the squares was infinite, the epsilon zero, and the mix zero or NaN, in silence."""
    mix, layers = ScalarMix(layer_norm=layer_norm), (300 * random_layers()).to(dtype)
    mixed = mix(layers, MASK)
    torch.testing.assert_close(mixed.float(), mix(layers.float(), MASK), rtol=0.01, atol=0.02)
