"""What a run needs of memory, told before it starts, and what would fit instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ..errors import RunError
from ..model.config import BiLMConfig
from ..weights.bundle import empty_bilm

if TYPE_CHECKING:
    from .loop import Trainer

BYTES_PER_PARAMETER = 16
"""float32 weight, gradient, and the two sums of Adam."""


def refuse_what_does_not_fit(config: BiLMConfig, device: torch.device) -> None:
    """A model whose weights and their sums alone are more than the machine has."""
    n_parameters = empty_bilm(config).n_parameters()
    needed, there = n_parameters * BYTES_PER_PARAMETER, _memory(device)
    if needed > there:
        raise RunError(
            f"training {n_parameters / 1e6:,.0f} M parameters takes {needed / 1e9:.1f} GB, "
            f"{device} has {there / 1e9:.1f} GB",
            hint=_smaller(config),
        )


def memory_in_use(device: torch.device) -> int:
    """The most that this process has held on the device, in bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows has no such count
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def within_memory(trainer: Trainer) -> Iterator[None]:
    """Around the first steps: a batch that the GPU cannot hold is refused with the largest that it can."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        rows = trainer.settings.batch.rows
        hint = f"--set batch.rows={_largest(trainer)}, and --set batch.accumulate=... to see as much text a step"
        raise RunError(f"{trainer.device} has too little memory for batch.rows={rows}", hint=hint) from error


def _largest(trainer: Trainer) -> int:
    """Rows that fit, by halving: each try is one forward and backward pass."""
    rows = trainer.settings.batch.rows
    while rows > 1:
        rows //= 2
        torch.cuda.empty_cache()
        try:
            trainer.with_rows(rows).probe(1)
        except torch.OutOfMemoryError:
            continue
        return rows
    return 1


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if not hasattr(os, "sysconf"):  # Windows does not say
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _smaller(config: BiLMConfig) -> str:
    in_softmax = config.softmax is not None and config.softmax.n_words * config.token_dim
    if in_softmax and in_softmax > empty_bilm(config).n_parameters() / 2:
        return "most of it predicts words: --set corpus.max_words=... smaller, or a smaller recipe"
    return "take a smaller recipe, or --set lstm.dim=... and token_dim=... smaller"
