"""The recurrence of all directions on an NVIDIA GPU: one kernel runs all steps (triton_recurrence.py)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .packing import Packing
from .plain import Clips

OLDEST = (8, 0)
"""Compute capability: bfloat16 products and 100 kB of shared memory came with Ampere."""


@dataclass(frozen=True)
class Tiles:
    """What one program computes at a time: rows by cells by depth of a sum, for either product."""

    rows: int
    cells: int
    depth: int
    projected_rows: int
    projected: int
    projected_depth: int
    warps: int
    stages: int

    @classmethod
    def choose(cls, n_rows: int, n_cells: int, dim: int, *, itemsize: int, shared_bytes: int = 232_448) -> Tiles:
        """Enough tiles for every multiprocessor, and no larger than its registers and shared memory hold."""
        rows = _power_of_two(16, n_rows, 128)
        deep = 64 if itemsize == 2 else 32
        tiles = cls(
            rows=rows,
            cells=_divisor(n_cells, 64 if rows >= 64 else 32),
            depth=_divisor(dim, deep),
            # Few rows: these tiles are made small, so that there are as many as multiprocessors.
            projected_rows=min(rows, 64),
            projected=_divisor(dim, 64 if n_rows > 256 else 32 if n_rows > 64 else 16),
            projected_depth=_divisor(n_cells, 2 * deep),
            warps=8 if rows >= 128 else 4,
            stages=3,
        )
        return tiles if tiles.shared_bytes(itemsize) <= shared_bytes else tiles._smaller(itemsize, shared_bytes)

    def shared_bytes(self, itemsize: int) -> int:
        """What the operands of the larger product take, of all stages."""
        of_cells = self.depth * (self.rows + 4 * self.cells)
        return self.stages * itemsize * max(of_cells, self.projected_depth * (self.projected_rows + self.projected))

    def _smaller(self, itemsize: int, shared_bytes: int) -> Tiles:
        """For cards with less of it: two stages, then less depth."""
        tiles = dataclasses.replace(self, stages=2)
        while tiles.shared_bytes(itemsize) > shared_bytes and tiles.depth > 16:
            tiles = dataclasses.replace(tiles, depth=tiles.depth // 2, projected_depth=tiles.projected_depth // 2)
        return tiles

    def n_tiles(self, n_rows: int, n_cells: int, dim: int) -> int:
        """Of the larger product, in one direction."""
        of_cells = -(-n_rows // self.rows) * (n_cells // self.cells)
        return max(of_cells, -(-n_rows // self.projected_rows) * (dim // self.projected))

    def as_arguments(self) -> dict[str, int]:
        return {
            "ROWS": self.rows,
            "CELLS": self.cells,
            "DEPTH": self.depth,
            "PROJECTED_ROWS": self.projected_rows,
            "PROJECTED": self.projected,
            "PROJECTED_DEPTH": self.projected_depth,
            "num_warps": self.warps,
            "num_stages": self.stages,
        }


def can_run(device: torch.device, *, n_cells: int, dim: int, dtype: torch.dtype) -> bool:
    """Whether the kernel is for this device, shape and type; the plain path is for everything."""
    return n_cells % 16 == 0 and dim % 16 == 0 and has_kernels(device, dtype)


def has_kernels(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether Triton's kernels run there, in this type."""
    return dtype in (torch.float32, torch.bfloat16) and device.type == "cuda" and _is_there(device)


@cache
def _is_there(device: torch.device) -> bool:
    is_nvidia = torch.version.hip is None and torch.cuda.get_device_capability(device) >= OLDEST
    return is_nvidia and find_spec("triton") is not None


def training_steps(
    gates: Tensor,
    bias: Tensor,
    weights: tuple[Tensor, Tensor | None],
    state: tuple[Tensor, Tensor],
    clips: Clips,
    begins: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """As `plain.training_steps`, of (direction, time, batch, 4 cells) `gates`, which are used up."""
    outputs, *end = _Fused.apply(gates, bias, *weights, *state, clips, begins)  # type: ignore[no-untyped-call]
    return outputs, tuple(end)


def packed_steps(
    gates: Tensor,
    bias: Tensor,
    weights: tuple[Tensor, Tensor | None],
    state: tuple[Tensor, Tensor],
    clips: Clips,
    packing: Packing,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """As `plain.packed_steps`, of (direction, packed, 4 cells) `gates`."""
    n_rows, device = state[0].shape[1], gates.device
    # One copy to the device for all that the kernel asks of the packing.
    numbers = torch.from_numpy(np.concatenate([packing.counts, packing.offsets, packing.last_places()])).to(
        device, torch.int32
    )
    n_steps = len(packing.counts)
    counts, offsets, last = numbers[:n_steps], numbers[n_steps : 2 * n_steps], numbers[2 * n_steps :]
    hidden, cells, _ = forward(gates, bias, weights, state, clips, (counts, offsets))
    return hidden[:, n_rows:], (cells, hidden.index_select(1, last))


def forward(
    gates: Tensor,
    bias: Tensor,
    weights: tuple[Tensor, Tensor | None],
    state: tuple[Tensor, Tensor],
    clips: Clips,
    steps: tuple[Tensor, Tensor],
    *,
    begins: Tensor | None = None,
    training: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """(hidden, cells, inner) of packed `gates` (direction, packed, 4 cells), which `training` overwrites.

    `steps` are counts and offsets, on the device. `hidden` begins with the rows' start, and so do `cells` in training;
    else `cells` are the last of each row, and `inner` is no more than room.
    """
    from .triton_recurrence import forward_steps

    weight_hh, weight_hr = weights
    cell, start = state
    directions, n_packed, _ = gates.shape
    n_rows, n_cells, dim = cell.shape[1], cell.shape[2], start.shape[2]
    n_kept = n_packed if training else 0
    hidden = gates.new_empty(directions, n_rows + n_packed, dim)
    hidden[:, :n_rows] = start
    cells = bias.new_empty(directions, n_rows + n_kept, n_cells)
    cells[:, :n_rows] = cell
    inner = gates.new_empty(directions, n_kept or n_rows, n_cells) if weight_hr is not None else hidden
    tiles = _tiles(gates, n_rows, n_cells, dim)
    forward_steps[_programs(tiles, gates.device, directions, n_rows, n_cells, dim)](
        gates,
        bias,
        weight_hh,
        weight_hh if weight_hr is None else weight_hr,
        cells,
        inner,
        hidden,
        gates if begins is None else begins,
        *steps,
        torch.zeros(1, dtype=torch.int32, device=gates.device),
        len(steps[0]),
        n_rows,
        n_packed,
        TRAINING=training,
        **_constants(gates, cell, start, weight_hr, clips, begins),
        **tiles.as_arguments(),
    )
    return hidden, cells, inner


def backward(
    gates: Tensor,
    weights: tuple[Tensor, Tensor | None],
    cells: Tensor,
    hidden: Tensor,
    grad: Tensor,
    clips: Clips,
    begins: Tensor | None,
) -> Tensor:
    """Replace `gates` after their activation by their gradients; returns those of the projection before its clip."""
    from .triton_recurrence import backward_steps

    weight_hh, weight_hr = weights
    directions, n_packed, _ = gates.shape
    n_rows, n_cells, dim = cells.shape[1] - n_packed, cells.shape[2], hidden.shape[2]
    grad_projected = torch.empty_like(grad, dtype=gates.dtype)
    tiles = _tiles(gates, n_rows, n_cells, dim)
    backward_steps[_programs(tiles, gates.device, directions, n_rows, n_cells, dim)](
        gates,
        weight_hh,
        weight_hh if weight_hr is None else weight_hr,
        cells,
        hidden,
        grad,
        grad_projected,
        cells.new_zeros(directions, n_rows, n_cells),
        gates if begins is None else begins,
        torch.zeros(1, dtype=torch.int32, device=gates.device),
        n_packed // n_rows,
        n_rows,
        **_constants(gates, cells, hidden, weight_hr, clips, begins),
        **tiles.as_arguments(),
    )
    return grad_projected


class _Fused(torch.autograd.Function):
    """Overwrites `gates`, which nobody else may keep, twice: they are the largest tensor of a training step."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        bias: Tensor,
        weight_hh: Tensor,
        weight_hr: Tensor | None,
        cell: Tensor,
        hidden: Tensor,
        clips: Clips,
        begins: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        directions, n_steps, n_rows, _ = gates.shape
        gates = gates.flatten(1, 2)
        begins = None if begins is None else begins.contiguous().view(torch.uint8)
        counts = torch.full((n_steps,), n_rows, dtype=torch.int32, device=gates.device)
        steps = counts, torch.arange(n_steps, dtype=torch.int32, device=gates.device) * n_rows
        hiddens, cells, inner = forward(
            gates, bias, (weight_hh, weight_hr), (cell, hidden), clips, steps, begins=begins, training=True
        )
        ctx.save_for_backward(gates, cells, inner, hiddens, weight_hh, weight_hr, begins)
        ctx.clips = clips
        ctx.set_materialize_grads(False)
        ends = cells[:, -n_rows:].clone(), hiddens[:, -n_rows:].to(cell.dtype)
        ctx.mark_non_differentiable(*ends)
        return hiddens[:, n_rows:].view(directions, n_steps, n_rows, -1), *ends

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        gates, cells, inner, hidden, weight_hh, weight_hr, begins = ctx.saved_tensors
        weights = weight_hh, weight_hr
        n_packed = gates.shape[1]
        flat = grad.flatten(1, 2).contiguous()
        grad_projected = backward(gates, weights, cells, hidden, flat, ctx.clips, begins)
        before = hidden[:, :n_packed]
        if begins is not None:
            before = before.masked_fill(begins.flatten(1)[:, :, None] != 0, 0)
        grad_hh = torch.bmm(gates.mT, before)
        grad_hr = None if weight_hr is None else torch.bmm(grad_projected.mT, inner)
        grad_bias = gates.sum(dim=1, dtype=torch.float32)
        return gates.view(*grad.shape[:3], -1), grad_bias, grad_hh, grad_hr, None, None, None, None


def _tiles(gates: Tensor, n_rows: int, n_cells: int, dim: int) -> Tiles:
    if gates.device.type != "cuda":
        return Tiles.choose(n_rows, n_cells, dim, itemsize=gates.element_size())
    properties = torch.cuda.get_device_properties(gates.device)
    there = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return Tiles.choose(n_rows, n_cells, dim, itemsize=gates.element_size(), shared_bytes=there)


def _programs(tiles: Tiles, device: torch.device, directions: int, n_rows: int, n_cells: int, dim: int) -> tuple[int]:
    if device.type != "cuda":
        return (1,)  # Triton's interpreter runs one program after the other: a second would wait for ever
    n_processors = torch.cuda.get_device_properties(device).multi_processor_count
    return (min(n_processors, directions * tiles.n_tiles(n_rows, n_cells, dim)),)


def _constants(
    gates: Tensor, cells: Tensor, hidden: Tensor, weight_hr: Tensor | None, clips: Clips, begins: Tensor | None
) -> dict[str, Any]:
    """What both kernels are compiled for; and programs that wait for each other must all be running."""
    return {
        "DIRECTIONS": len(gates),
        "D": cells.shape[2],
        "P": hidden.shape[2],
        "PROJECTION": weight_hr is not None,
        "CELL_CLIP": clips.cell,
        "PROJ_CLIP": clips.projection,
        "RESETS": begins is not None,
        "PRECISION": precision(gates),
        **({"launch_cooperative_grid": True} if gates.device.type == "cuda" else {}),
    }


def precision(gates: Tensor) -> str:
    """float32 as three products of tf32, which loses nothing that shows; one alone loses two decimal places."""
    return "tf32x3" if gates.dtype == torch.float32 and gates.device.type == "cuda" else "ieee"


def _power_of_two(low: int, wanted: int, high: int) -> int:
    size = low
    while size < min(wanted, high):
        size *= 2
    return size


def _divisor(size: int, most: int) -> int:
    """The largest power of two up to `most` that divides `size`."""
    while size % most:
        most //= 2
    return most
