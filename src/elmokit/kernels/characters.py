"""Convolutions over characters, and the largest answer of each filter: by one kernel on an NVIDIA GPU.

`convolved` is what `model/char_cnn.py` writes as a convolution and a maximum for each width, with gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import fused

Convolve = Callable[[Tensor, nn.ModuleList], Tensor]

MOST_DEPTH = 128
"""Numbers of a window that a program holds: seven characters of sixteen, as published, are 112."""

PARTS = 16
"""Programs that share the words of a filter's gradient."""


@dataclass(frozen=True)
class Filters:
    """All convolutions as rows of equal length, as the kernels take them."""

    rows: Tensor
    bias: Tensor
    n_places: Tensor

    @classmethod
    def of(cls, convolutions: nn.ModuleList, dtype: torch.dtype, *, n_chars: int) -> Filters:
        """Differentiable: gradients go back to the convolutions."""
        found, depth = _list(convolutions), _depth(convolutions)
        weights = [c.weight.to(dtype).transpose(1, 2).flatten(1) for c in found]
        places = [torch.full((len(c.weight),), n_chars - c.weight.shape[2] + 1) for c in found]
        return cls(
            rows=torch.cat([F.pad(weight, (0, depth - weight.shape[1])) for weight in weights]),
            bias=torch.cat([c.bias for c in found if c.bias is not None]),
            n_places=torch.cat(places).to(weights[0].device, torch.int32, non_blocking=True),
        )


def fastest(convolutions: nn.ModuleList | None, device: torch.device, dtype: torch.dtype) -> Convolve | None:
    """`convolved`, where the kernel is for this device, type and shape; None is the model's own way."""
    if convolutions is None or not fused.has_kernels(device, dtype):
        return None
    return convolved if _depth(convolutions) <= MOST_DEPTH else None


def convolved(embedded: Tensor, convolutions: nn.ModuleList) -> Tensor:
    """(word, filter) answers to (word, char, dim) embedded characters, in their dtype or autocast's."""
    device = embedded.device.type
    if torch.is_autocast_enabled(device):
        embedded = embedded.to(torch.get_autocast_dtype(device))
    return answers(embedded, Filters.of(convolutions, embedded.dtype, n_chars=embedded.shape[1]))


def answers(embedded: Tensor, filters: Filters) -> Tensor:
    """The same, of filters made before."""
    x = embedded.contiguous()
    return _Answers.apply(x, filters.rows, filters.bias, filters.n_places)  # type: ignore[no-untyped-call]


class _Answers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, bias: Tensor, n_places: Tensor) -> Tensor:
        from .triton_characters import convolve

        training = any(ctx.needs_input_grad)
        result = x.new_empty(len(x), len(rows))
        maxima = torch.empty(result.shape if training else 1, dtype=torch.int16, device=x.device)
        n_word_tiles, n_filter_tiles, tiles = _tiles(x, rows)
        if len(x):
            convolve[n_word_tiles, n_filter_tiles](
                x, rows, bias, n_places, result, maxima, *_sizes(x, rows), **tiles, TRAINING=training
            )
        ctx.save_for_backward(x, rows, maxima)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from .triton_characters import grad_filters, grad_inputs

        x, rows, maxima = ctx.saved_tensors
        grad, sizes = grad.contiguous(), _sizes(x, rows)
        n_word_tiles, n_filter_tiles, tiles = _tiles(x, rows)
        n_parts = max(1, min(PARTS, n_word_tiles))
        partial = torch.empty(n_parts, *rows.shape, dtype=torch.float32, device=x.device)
        grad_filters[n_filter_tiles, n_parts](x, grad, maxima, partial, *sizes, **tiles)
        grad_x = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        if len(x):
            grad_inputs[(n_word_tiles,)](rows, grad, maxima, grad_x, *sizes, **tiles)
        return grad_x.to(x.dtype), partial.sum(0).to(rows.dtype), grad.sum(0, dtype=torch.float32), None


def _depth(convolutions: nn.ModuleList) -> int:
    """A power of two that holds the widest window."""
    window = max(c.weight.shape[1] * c.weight.shape[2] for c in _list(convolutions))
    return max(16, 1 << (window - 1).bit_length())


def _list(convolutions: nn.ModuleList) -> list[nn.Conv1d]:
    return [c for c in convolutions if isinstance(c, nn.Conv1d)]


def _sizes(x: Tensor, rows: Tensor) -> tuple[int, int, int, int]:
    """Words, the length of a word's row, its characters (no filter has more places), and filters."""
    n_words, n_chars, dim = x.shape
    return n_words, n_chars * dim, n_chars, len(rows)


def _tiles(x: Tensor, rows: Tensor) -> tuple[int, int, dict[str, Any]]:
    """How many tiles of words and of filters, and what fits the registers and 99 kB of shared memory."""
    words, filters, warps = (64, 128, 8) if x.element_size() == 2 else (32, 64, 4)
    tiles = {
        "STEP": x.shape[2],
        "DEPTH": rows.shape[1],
        "WORDS": words,
        "FILTERS": filters,
        "PRECISION": fused.precision(x),
        "num_warps": warps,
        "num_stages": 2,
    }
    return -(-len(x) // words), -(-len(rows) // filters), tiles
