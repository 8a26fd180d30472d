"""The training kernel against the specification in model/lstm.py: values, gradients, last states."""

from __future__ import annotations

import pytest
import torch

from elmokit.model.config import LSTMConfig
from elmokit.model.lstm import LSTMLayer
from elmokit.pretraining.objective import run_layer


def both(config: LSTMConfig, begins: torch.Tensor | None, dtype: torch.dtype = torch.float64):
    """(outputs, last states, gradients) by the layer and by the kernel."""
    torch.manual_seed(0)
    layer = LSTMLayer(config, token_dim=4).to(dtype)
    x = (2 * torch.randn(3, 7, 4, dtype=dtype)).requires_grad_()
    state = (torch.randn(3, config.dim, dtype=dtype), torch.randn(3, 4, dtype=dtype))
    weights = torch.randn(3, 7, 4, dtype=dtype)
    for run in (LSTMLayer.__call__, run_layer):
        outputs, end = run(layer, x, state, mask=None, begins=begins)
        gradients = torch.autograd.grad((outputs * weights).sum(), [x, *layer.parameters()])
        yield [outputs, *end, *gradients]


@pytest.mark.parametrize("projection", [True, False], ids=["projection", "no projection"])
@pytest.mark.parametrize("clip", [None, 0.3], ids=["no clips", "clips that bite"])
@pytest.mark.parametrize("resets", [False, True], ids=["carried", "with sentences that begin"])
def test_the_kernel_equals_the_layer(projection, clip, resets):
    config = LSTMConfig(dim=6 if projection else 4, projection=projection, cell_clip=clip, proj_clip=clip)
    begins = torch.rand(3, 7, generator=torch.Generator().manual_seed(1)) < 0.3 if resets else None
    for plain, fast in zip(*both(config, begins), strict=True):
        torch.testing.assert_close(fast, plain, atol=1e-12, rtol=0)


def test_the_kernel_in_bfloat16_is_close():
    torch.manual_seed(0)
    layer = LSTMLayer(LSTMConfig(dim=64), token_dim=32)
    x, state = torch.randn(8, 20, 32), (torch.zeros(8, 64), torch.zeros(8, 32))
    plain, _ = layer(x, state)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fast, _ = run_layer(layer, x, state, mask=None, begins=None)
    assert torch.nn.functional.cosine_similarity(plain.flatten(), fast.float().flatten(), dim=0) > 0.999


def test_no_gradient_flows_into_the_state_before_or_behind():
    layer = LSTMLayer(LSTMConfig(dim=6), token_dim=4)
    state = (torch.zeros(1, 6), torch.zeros(1, 4))
    _, (cell, hidden) = run_layer(layer, torch.randn(1, 3, 4), state, mask=None, begins=None)
    assert not cell.requires_grad and not hidden.requires_grad
