"""What a softmax does with its logits: by one kernel on an NVIDIA GPU, else in plain PyTorch.

`hits` (row,) are columns to leave out, -1 for none. Logits are without the bias, and are used up.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import fused

BLOCK = 4096


def log_totals(logits: Tensor, bias: Tensor, hits: Tensor | None) -> Tensor:
    """log sum exp(logit + bias) of each row."""
    if not is_fused(logits):
        return _completed(logits, bias, hits).logsumexp(1)
    from .triton_logits import log_totals as kernel

    totals = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    kernel[(len(logits),)](
        logits, bias, logits if hits is None else hits, totals, logits.shape[1], HITS=hits is not None, BLOCK=BLOCK
    )
    return totals


def shares(logits: Tensor, bias: Tensor, hits: Tensor | None, totals: Tensor, grad: Tensor) -> Tensor:
    """exp(logit + bias - total) of each row, times its gradient."""
    if not is_fused(logits):
        return torch.exp(_completed(logits, bias, hits) - totals[:, None]).mul_(grad[:, None])
    from .triton_logits import shares as kernel

    some = logits if hits is None else hits
    kernel[(len(logits),)](
        logits, bias, some, totals, grad.contiguous(), logits.shape[1], HITS=hits is not None, BLOCK=BLOCK
    )
    return logits


def is_fused(logits: Tensor) -> bool:
    return fused.has_kernels(logits.device, logits.dtype)


def _completed(logits: Tensor, bias: Tensor, hits: Tensor | None) -> Tensor:
    logits = logits.to(bias.dtype).add_(bias)
    if hits is None:
        return logits
    there = hits[:, None].clamp(min=0)
    return logits.scatter_(1, there, logits.gather(1, there).masked_fill(hits[:, None] >= 0, -torch.inf))
