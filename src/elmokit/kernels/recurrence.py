"""The recurrence of `model/lstm.py`, by the fastest path that a device, a shape and a precision allow.

Each path is tested to equal the specification, values and gradients. All directions of a layer run together: tensors
begin with `direction`. `gates` hold what the inputs contribute, without the bias, and are used up.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import fused, plain
from .packing import Packing
from .plain import Clips

Weights = tuple[Tensor, Tensor | None]
"""To the gates from the hidden state, and to the hidden state from the cells, where there is a projection."""

State = tuple[Tensor, Tensor]
"""Cells and hidden."""


def packed_steps(
    gates: Tensor, bias: Tensor, weights: Weights, state: State, clips: Clips, packing: Packing
) -> tuple[Tensor, State]:
    """(direction, packed, dim) outputs and each row's last state, without gradients.

    Rows of `state` are in the packing's order.
    """
    if _is_fused(gates, state):
        return fused.packed_steps(gates, bias, weights, state, clips, packing)
    runs = [
        plain.packed_steps(gates[d] + bias[d].to(gates.dtype), _of(weights, d), _of(state, d), clips, packing)
        for d in range(len(gates))
    ]
    return _stacked(runs)


def training_steps(
    gates: Tensor, bias: Tensor, weights: Weights, state: State, clips: Clips, begins: Tensor | None
) -> tuple[Tensor, State]:
    """(direction, time, row, dim) outputs and the last state, through which no gradient flows back.

    `begins` (direction, time, row) puts a row's state back to zero before a step.
    """
    if _is_fused(gates, state):
        return fused.training_steps(gates, bias, weights, state, clips, begins)
    runs = [
        plain.training_steps(
            gates[d] + bias[d], _of(weights, d), _of(state, d), clips, None if begins is None else begins[d]
        )
        for d in range(len(gates))
    ]
    return _stacked(runs)


def _is_fused(gates: Tensor, state: State) -> bool:
    cell, hidden = state
    return fused.can_run(gates.device, n_cells=cell.shape[-1], dim=hidden.shape[-1], dtype=gates.dtype)


def _of(tensors: tuple[Tensor, Tensor | None], direction: int) -> tuple[Tensor, Tensor]:
    first, second = tensors
    return first[direction], None if second is None else second[direction]  # type: ignore[return-value]


def _stacked(runs: list[tuple[Tensor, State]]) -> tuple[Tensor, State]:
    outputs, states = zip(*runs, strict=True)
    cells, hiddens = zip(*states, strict=True)
    return torch.stack(outputs), (torch.stack(cells), torch.stack(hiddens))
