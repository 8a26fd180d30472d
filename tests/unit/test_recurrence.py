"""The training recurrence against the specification in model/lstm.py: values, gradients, last states.

Where there is no GPU, the Triton kernels run in Triton's interpreter: what they compute is tested, how fast it is not.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from elmokit.kernels import fused
from elmokit.model.config import LSTMConfig
from elmokit.model.lstm import LSTMLayer
from elmokit.pretraining.windows import run_layers

from kernels import DEVICE, needs_triton

CLIPS = {"no clips": None, "clips that bite": 0.3}


def close(found, expected, *, rtol: float) -> None:
    """To `rtol` of the largest number, tensor by tensor."""
    assert len(found) == len(expected)
    for some, plain in zip(found, expected, strict=True):
        assert some.shape == plain.shape
        assert (some - plain).abs().max() <= rtol * plain.abs().max().clamp(min=1e-6)


class Case:
    """Some layers side by side, a window to run them over, and what its outputs are weighted by."""

    def __init__(self, config: LSTMConfig, *, dim: int, directions: int = 2, resets: bool = False, dtype=torch.float64):
        torch.manual_seed(0)
        self.layers = [LSTMLayer(config, token_dim=dim).to(DEVICE, dtype) for _ in range(directions)]
        for layer in self.layers:
            torch.nn.init.normal_(layer.bias)
        shape = directions, 7, 3
        self.x = (2 * torch.randn(*shape, dim, dtype=dtype, device=DEVICE)).requires_grad_()
        self.state = tuple(torch.randn(directions, 3, n, dtype=dtype, device=DEVICE) for n in (config.dim, dim))
        self.begins = torch.rand(shape, device=DEVICE) < 0.3 if resets else None
        self.weights = torch.randn(*shape, dim, dtype=dtype, device=DEVICE)

    def plain(self) -> list[torch.Tensor]:
        """Outputs, last states, gradients of the inputs and of the parameters."""
        runs = []
        for d, layer in enumerate(self.layers):
            begins = None if self.begins is None else self.begins[d].t()
            output, end = layer(self.x[d].transpose(0, 1), tuple(part[d] for part in self.state), begins=begins)
            runs.append((output.transpose(0, 1), *end))
        outputs, cells, hiddens = map(torch.stack, zip(*runs, strict=True))
        return [outputs, cells, hiddens, *self.gradients(outputs)]

    def fast(self) -> list[torch.Tensor]:
        outputs, end = run_layers(self.layers, self.x, self.state, self.begins)
        return [outputs, *end, *self.gradients(outputs)]

    def gradients(self, outputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parameters = itertools.chain.from_iterable(layer.parameters() for layer in self.layers)
        return torch.autograd.grad((outputs * self.weights).sum(), [self.x, *parameters])


@pytest.mark.parametrize("projection", [True, False], ids=["projection", "no projection"])
@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)
@pytest.mark.parametrize("resets", [False, True], ids=["carried", "with sentences that begin"])
@pytest.mark.parametrize("directions", [1, 2])
def test_the_plain_path_equals_the_layer(projection, clip, resets, directions):
    config = LSTMConfig(dim=6 if projection else 4, projection=projection, cell_clip=clip, proj_clip=clip)
    case = Case(config, dim=4, directions=directions, resets=resets)
    close(case.fast(), case.plain(), rtol=1e-12)


@needs_triton
@pytest.mark.parametrize("projection", [True, False], ids=["projection", "no projection"])
@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)
@pytest.mark.parametrize("resets", [False, True], ids=["carried", "with sentences that begin"])
@pytest.mark.parametrize("directions", [1, 2])
def test_the_kernel_equals_the_layer(projection, clip, resets, directions, monkeypatch):
    monkeypatch.setattr(fused, "can_run", lambda *_, **__: True)
    config = LSTMConfig(dim=48 if projection else 32, projection=projection, cell_clip=clip, proj_clip=clip)
    case = Case(config, dim=32, directions=directions, resets=resets, dtype=torch.float32)
    close(case.fast(), case.plain(), rtol=1e-5)


@needs_triton
@pytest.mark.parametrize("path", ["plain", "kernel"])
def test_in_half_the_bits_both_paths_are_close(path, monkeypatch):
    """The interpreter does not multiply bfloat16, so without a GPU the kernel is tried in float16."""
    monkeypatch.setattr(fused, "can_run", lambda *_, **__: path == "kernel")
    case = Case(LSTMConfig(dim=64), dim=32, dtype=torch.float32)
    half = torch.float16 if (path, DEVICE) == ("kernel", "cpu") else torch.bfloat16
    with torch.autocast(DEVICE, dtype=half):
        fast = case.fast()
    for some, plain in zip(fast, case.plain(), strict=True):
        assert torch.nn.functional.cosine_similarity(plain.flatten(), some.float().flatten(), dim=0) > 0.999


def test_gradients_are_those_of_finite_differences():
    case = Case(LSTMConfig(dim=5, cell_clip=0.8, proj_clip=0.8), dim=3, resets=True)
    assert torch.autograd.gradcheck(
        lambda x: run_layers(case.layers, x, case.state, case.begins)[0], case.x, check_undefined_grad=False
    )


def test_no_gradient_flows_into_the_state_before_or_behind():
    case = Case(LSTMConfig(dim=6), dim=4)
    _, (cell, hidden) = run_layers(case.layers, case.x, case.state, None)
    assert not cell.requires_grad and not hidden.requires_grad
