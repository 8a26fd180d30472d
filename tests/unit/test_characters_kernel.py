"""The kernel of the convolutions over characters against the model's own: values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from elmokit.kernels import characters
from elmokit.model import char_cnn

from kernels import DEVICE, needs_triton

SHAPES = {
    "tiny": (4, ((1, 8), (2, 16), (3, 16)), 24, 5),
    "published widths, few filters": (16, ((1, 4), (2, 4), (3, 8), (4, 16), (5, 20), (6, 32), (7, 130)), 50, 70),
    "as long as the row": (3, ((6, 5),), 6, 3),
}


def case(name: str) -> tuple[torch.Tensor, nn.ModuleList, torch.Tensor]:
    torch.manual_seed(0)
    dim, filters, n_chars, n_words = SHAPES[name]
    x = torch.randn(n_words, n_chars, dim, device=DEVICE, requires_grad=True)
    convolutions = nn.ModuleList(nn.Conv1d(dim, n, width) for width, n in filters).to(DEVICE)
    return x, convolutions, torch.randn(n_words, sum(n for _, n in filters), device=DEVICE)


@needs_triton
@pytest.mark.parametrize("name", SHAPES)
def test_values_and_gradients_are_the_models(name):
    x, convolutions, weights = case(name)
    runs = []
    for convolve in (char_cnn.convolved, characters.convolved):
        result = convolve(x, convolutions)
        runs.append([result, *torch.autograd.grad((result * weights).sum(), [x, *convolutions.parameters()])])
    for plain, fast in zip(*runs, strict=True):
        assert (plain - fast).abs().max() <= 1e-5 * plain.abs().max()


@needs_triton
def test_equal_windows_share_one_gradient():
    """Padding gives many equal windows: PyTorch's maximum spreads the gradient over them, the kernel takes one."""
    x, convolutions, weights = case("tiny")
    x = x.detach().clone()
    x[:, 9:] = x[0, 9]
    embedding = nn.Embedding.from_pretrained(torch.randn(7, 4, device=DEVICE), freeze=False)
    ids = torch.randint(7, (5, 24), device=DEVICE)
    ids[:, 9:] = 6
    found = []
    for convolve in (char_cnn.convolved, characters.convolved):
        result = convolve(embedding(ids), convolutions)
        found.append(torch.autograd.grad((result * weights).sum(), [embedding.weight, *convolutions.parameters()]))
    for plain, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, plain, atol=1e-5, rtol=1e-5)


@needs_triton
def test_no_words_are_no_work():
    x, convolutions, _ = case("tiny")
    assert characters.convolved(x[:0], convolutions).shape == (0, 40)
