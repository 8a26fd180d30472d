"""What a model must compute, and the most that the machine can: the share of the two says what is left to win."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import torch
from torch.nn import functional as F

from ..model.config import BiLMConfig
from .text import Sentence

N_MARKS = 2
SECONDS, TIMES = 0.4, 3
"""A product is repeated so long, and at least so often; the best counts, for it is a ceiling."""


def lstm_multiply_adds(config: BiLMConfig) -> int:
    """Of one token, in all layers and directions."""
    cells, dim = config.lstm.dim, config.token_dim
    layer = 2 * 4 * cells * dim + (cells * dim if config.lstm.projection else 0)
    return layer * config.lstm.n_layers * len(config.directions)


def token_layer_multiply_adds(config: BiLMConfig) -> int:
    """Of one distinct word: convolutions, highways and projection."""
    total = config.read_dim * config.token_dim if config.projection else 0
    if config.characters is not None:
        cnn = config.characters
        total += sum(w * cnn.dim * n * (cnn.max_characters_per_token - w + 1) for w, n in cnn.filters)
        total += config.n_highway * 2 * cnn.output_dim**2
    return total


def multiply_adds(config: BiLMConfig, batches: Sequence[Sequence[Sentence]], *, words_are_kept: bool = False) -> int:
    """Each token and mark through the LSTMs, each distinct word through the token layer: of a batch, or of them all."""
    n_steps = sum(len(sentence) + N_MARKS for batch in batches for sentence in batch)
    read_together = [[sentence for batch in batches for sentence in batch]] if words_are_kept else batches
    n_distinct = sum(len(_distinct(together)) + N_MARKS for together in read_together)
    return n_steps * lstm_multiply_adds(config) + n_distinct * token_layer_multiply_adds(config)


def _distinct(batch: Iterable[Sentence]) -> set[str]:
    return {word for sentence in batch for word in sentence}


def ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a large product of matrices, by the best that PyTorch has for it."""
    n = 8192 if device.type == "cuda" else 2048
    products = [_product(n, device, dtype)]
    if device.type == "cpu" and dtype == torch.float32 and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        products.append(_onednn_product(n))
    return max(2 * n**3 / _best_seconds(product, device) for product in products)


def _product(n: int, device: torch.device, dtype: torch.dtype) -> Callable[[], object]:
    a = torch.randn(n, n, device=device).to(dtype)
    return lambda: a @ a


def _onednn_product(n: int) -> Callable[[], object]:
    """On some processors twice as fast as PyTorch's default."""
    x, weight = torch.randn(n, n).to_mkldnn(), torch.randn(n, n)
    return lambda: F.linear(x, weight)


@torch.no_grad()
def _best_seconds(product: Callable[[], object], device: torch.device) -> float:
    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    product()
    found: list[float] = []
    while sum(found) < SECONDS or len(found) < TIMES:
        wait()
        started = time.perf_counter()
        product()
        wait()
        found.append(time.perf_counter() - started)
    return min(found)
