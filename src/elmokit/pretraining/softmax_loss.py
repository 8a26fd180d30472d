"""Cross entropy over a large vocabulary without a (token, vocabulary) matrix in memory.

Full: every word. Sampled: the right word against a few thousand drawn ones, as TensorFlow's `sampled_softmax_loss`
with its log-uniform sampler does it, corrected for how likely each was drawn, and with a drawn word that happens to be
the right one left out. Both come down to a log-sum-exp over many words, which is computed in pieces and once more in
the backward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from ..kernels.logits import log_totals, shares

PIECE_BYTES = 64 << 20
"""Logits that exist at a time; a GPU has more memory, and each piece costs it launches."""


def full_loss(
    hidden: Float[Tensor, "token dim"],
    weight: Float[Tensor, "word dim"],
    bias: Float[Tensor, "word"],
    targets: Int[Tensor, "token"],
) -> Float[Tensor, "token"]:
    """Negative log likelihood of each token, in nats."""
    true = (hidden * F.embedding(targets, weight)).sum(dim=1, dtype=bias.dtype) + bias[targets]
    return log_sum_exp(hidden, weight, bias) - true


def sampled_loss(
    hidden: Float[Tensor, "token dim"],
    weight: Float[Tensor, "word dim"],
    bias: Float[Tensor, "word"],
    targets: Int[Tensor, "token"],
    *,
    samples: LogUniformSamples,
) -> Float[Tensor, "token"]:
    """As TensorFlow: an estimate that is lower than the full loss, with the same minimum."""
    drawn = samples.words.to(hidden.device, non_blocking=True)
    columns = torch.full((len(bias),), -1, device=hidden.device)
    columns[drawn] = torch.arange(len(drawn), device=hidden.device)
    # One look-up for all: the gradient of each is as large as the vocabulary.
    words, n_tokens = torch.cat([targets, drawn]), len(targets)
    rows, biases = (
        F.embedding(words, weight),
        F.embedding(words, bias[:, None]).squeeze(1) - samples.log_expected(words),
    )
    true = (hidden * rows[:n_tokens]).sum(dim=1, dtype=bias.dtype) + biases[:n_tokens]
    others = log_sum_exp(hidden, rows[n_tokens:], biases[n_tokens:], hits=columns[targets])
    return torch.logaddexp(true, others) - true


class LogUniformSamples:
    """Distinct words, drawn with p(k) = log((k + 2) / (k + 1)) / log(n + 1): frequent words first in the vocabulary."""

    def __init__(self, n_samples: int, n_words: int, *, seed: list[int]) -> None:
        assert n_samples < n_words
        self.n_words = n_words
        generator = np.random.default_rng(seed)
        draws = np.empty(0, dtype=np.int64)
        while True:
            uniform = generator.random(2 * n_samples)
            draws = np.append(draws, np.expm1(uniform * np.log(n_words + 1)).astype(np.int64))
            distinct, first = np.unique(np.minimum(draws, n_words - 1), return_index=True)
            if len(distinct) >= n_samples:
                break
        order = np.argsort(first)[:n_samples]
        self.words = torch.from_numpy(distinct[order])
        self.n_tries = int(first[order[-1]]) + 1

    def log_expected(self, words: Int[Tensor, "any"]) -> Float[Tensor, "any"]:
        """Log of how often a word is among the samples: 1 - (1 - p)^tries."""
        k = words.double()
        p = torch.log((k + 2) / (k + 1)) / np.log(self.n_words + 1)
        return torch.log(-torch.expm1(self.n_tries * torch.log1p(-p))).float()


def log_sum_exp(
    hidden: Float[Tensor, "token dim"],
    weight: Float[Tensor, "word dim"],
    bias: Float[Tensor, "word"],
    *,
    hits: Int[Tensor, "token"] | None = None,
) -> Float[Tensor, "token"]:
    """log sum_w exp(hidden . weight_w + bias_w), in float32. A token's hit is the word to leave out, or -1."""
    dtype = hidden.dtype
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    result: Tensor = _LogSumExp.apply(hidden.to(dtype), weight.to(dtype), bias, hits)  # type: ignore[no-untyped-call]
    return result


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, hits: Any) -> Tensor:
        pieces = [log_totals(hidden[rows] @ weight.t(), bias, _of(hits, rows)) for rows in _rows(hidden, weight)]
        result = torch.cat(pieces)
        ctx.save_for_backward(hidden, weight, bias, hits, result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, hits, result = ctx.saved_tensors
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=bias.dtype)
        grad_bias = torch.zeros_like(bias)
        for rows in _rows(hidden, weight):
            share = shares(hidden[rows] @ weight.t(), bias, _of(hits, rows), result[rows], grad[rows])
            grad_bias += share.sum(0, dtype=bias.dtype)
            share = share.to(hidden.dtype)
            grad_hidden[rows] = share @ weight
            grad_weight += share.t() @ hidden[rows]
        return grad_hidden, grad_weight.to(weight.dtype), grad_bias, None


def _of(hits: Tensor | None, rows: slice) -> Tensor | None:
    return None if hits is None else hits[rows]


def _rows(hidden: Tensor, weight: Tensor) -> list[slice]:
    n_bytes = PIECE_BYTES * (16 if hidden.device.type == "cuda" else 1)
    n_rows = max(1, n_bytes // (4 * len(weight)))
    return [slice(first, first + n_rows) for first in range(0, len(hidden), n_rows)]
