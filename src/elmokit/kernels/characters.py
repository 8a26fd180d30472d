"""Convolutions over characters, and the largest answer of each filter: by one kernel on an NVIDIA GPU.

`convolved` is what `model/char_cnn.py` writes as a convolution and a maximum for each width, with gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import fused

PARTS = 16
"""Programs that share the words of a filter's gradient."""


def fastest(device: torch.device, dtype: torch.dtype) -> Callable[..., Tensor] | None:
    """`convolved`, where the kernel is for this device and type; None is the model's own way."""
    suits = dtype in (torch.float32, torch.bfloat16) and device.type == "cuda"
    return convolved if suits and fused.is_there(device) else None


def convolved(embedded: Tensor, convolutions: nn.ModuleList) -> Tensor:
    """(word, filter) answers to (word, char, dim) embedded characters, in their dtype or autocast's."""
    device = embedded.device.type
    if torch.is_autocast_enabled(device):
        embedded = embedded.to(torch.get_autocast_dtype(device))
    weights = [c.weight.to(embedded.dtype) for c in convolutions]
    bias = torch.cat([c.bias for c in convolutions])  # type: ignore[misc]
    return _Convolved.apply(embedded, bias, *weights)  # type: ignore[no-untyped-call]


class _Convolved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, *weights: Tensor) -> Tensor:
        from .triton_characters import convolve

        n_results, training = len(bias), any(ctx.needs_input_grad)
        x = x.contiguous()
        result = x.new_empty(len(x), n_results)
        maxima = torch.empty(result.shape if training else 1, dtype=torch.int16, device=x.device)
        ctx.widths = list(_widths(x, weights))
        for width in ctx.widths if len(x) else ():
            convolve[width.n_word_tiles, width.n_filter_tiles](
                x, width.rows, bias[width.first :], result, maxima, *width.sizes, **width.tiles, TRAINING=training
            )
        ctx.save_for_backward(x, maxima)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from .triton_characters import grad_filters, grad_inputs

        x, maxima = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        grad_weights = []
        for width in ctx.widths:
            n_parts = max(1, min(PARTS, width.n_word_tiles))
            partial = torch.empty(n_parts, *width.rows.shape, dtype=torch.float32, device=x.device)
            grad_filters[width.n_filter_tiles, n_parts](x, grad, maxima, partial, *width.sizes, **width.tiles)
            grad_weights.append(width.as_convolution(partial.sum(0)))
            if len(x):
                grad_inputs[(width.n_word_tiles,)](width.rows, grad, maxima, grad_x, *width.sizes, **width.tiles)
        return grad_x.to(x.dtype), grad.sum(0, dtype=torch.float32), *grad_weights


class _Width:
    """One convolution as the kernels take it."""

    def __init__(self, x: Tensor, weight: Tensor, first: int, n_results: int) -> None:
        n_words, n_chars, dim = x.shape
        self.n_filters, _, self.width = weight.shape
        self.first, self.dim, self.dtype = first, dim, weight.dtype
        window = self.width * dim
        depth = 16
        while depth < window:
            depth *= 2
        self.rows = weight.new_zeros(self.n_filters, depth)
        self.rows[:, :window] = weight.transpose(1, 2).flatten(1)
        self.sizes = n_words, n_chars * dim, n_chars - self.width + 1, self.n_filters, first, n_results
        # What fits the registers and, with two stages, the 99 kB of shared memory that every card since Ampere has.
        words, filters, warps = (64, 128, 8) if x.element_size() == 2 else (32, 64, 4)
        self.n_word_tiles, self.n_filter_tiles = -(-n_words // words), -(-self.n_filters // filters)
        self.tiles = {
            "STEP": dim,
            "WINDOW": window,
            "DEPTH": depth,
            "WORDS": words,
            "FILTERS": filters,
            "PRECISION": fused.precision(x),
            "num_warps": warps,
            "num_stages": 2,
        }

    def as_convolution(self, rows: Tensor) -> Tensor:
        window = rows[:, : self.width * self.dim]
        return window.view(self.n_filters, self.width, self.dim).transpose(1, 2).to(self.dtype)


def _widths(x: Tensor, weights: Sequence[Tensor]) -> Any:
    first, n_results = 0, sum(map(len, weights))
    for weight in weights:
        yield _Width(x, weight, first, n_results)
        first += len(weight)
