"""Several processes of `torchrun` as one run: the first reads, writes and speaks, all compute."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the other processes, if `torchrun` started several."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    # PyTorch's compiler, which the optimizer imports, has functions whose default is the group that there is by then.
    # Held by them, the group outlives its destruction, and a thread of it that still lets go of a tensor while the
    # interpreter ends aborts a finished process. Imported before there is a group, they hold none.
    importlib.import_module("torch.distributed.nn.functional")
    # Decisions are agreed on in the machine's own memory, gradients on the GPU.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


@contextmanager
def first_goes_first() -> Iterator[None]:
    """What the first process makes, the others find made."""
    if rank() > 0:
        dist.barrier()
    yield
    if rank() == 0 and world() > 1:
        dist.barrier()


def wait_for_all() -> None:
    if world() > 1:
        dist.barrier()


def mean(value: Tensor) -> Tensor:
    """Of all processes, in each of them."""
    if world() > 1:
        dist.all_reduce(value)
        value /= world()
    return value


def side_by_side(rows: Tensor, dim: int) -> Tensor:
    """Every process's rows, in each of them."""
    if world() == 1:
        return rows
    parts = [torch.empty_like(rows) for _ in range(world())]
    dist.all_gather(parts, rows.contiguous())
    return torch.cat(parts, dim=dim)


def agreed(value: float) -> float:
    """The first process's value: clocks differ, decisions must not."""
    if world() == 1:
        return value
    shared = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(shared, src=0)
    return float(shared)
