"""The recurrence of `model/lstm.py`, by the fastest path that a device, a shape and a precision allow.

Each path is tested to equal the specification, values and gradients. All directions of a layer run together: tensors
begin with `direction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from . import fused, plain
from .packing import Packing
from .plain import Clips

if TYPE_CHECKING:
    from ..model.lstm import LSTMLayer

Weights = tuple[Tensor, Tensor | None]
"""To the gates from the hidden state, and to the hidden state from the cells, where there is a projection."""

State = tuple[Tensor, Tensor]
"""Cells and hidden."""

GATES_BYTES = 512 << 20
"""What inputs contribute to the gates, for as many steps as fit: a bound, however long a sentence is."""


def training_steps(
    gates: Tensor, bias: Tensor, weights: Weights, state: State, clips: Clips, begins: Tensor | None
) -> tuple[Tensor, State]:
    """(direction, time, row, dim) outputs and the last state, through which no gradient flows back.

    `gates` hold what the inputs contribute, without the bias, and are used up. `begins` (direction, time, row) puts a
    row's state back to zero before a step.
    """
    cell, hidden = state
    if fused.can_run(gates.device, n_cells=cell.shape[2], dim=hidden.shape[2], dtype=gates.dtype):
        return fused.training_steps(gates, bias, weights, state, clips, begins)
    weight_hh, weight_hr = weights
    runs = [
        plain.training_steps(
            gates[d] + bias[d],
            (weight_hh[d], None if weight_hr is None else weight_hr[d]),
            (cell[d], hidden[d]),
            clips,
            None if begins is None else begins[d],
        )
        for d in range(len(gates))
    ]
    return _stacked(runs)


class PackedLayer:
    """One frozen layer in all directions, over packed rows."""

    def __init__(self, layers: Sequence[LSTMLayer], dtype: torch.dtype) -> None:
        config, weight = layers[0].config, layers[0].weight_hh
        self.clips = Clips(config.cell_clip, config.proj_clip)
        self.dtype = dtype
        self.cell_dtype = torch.promote_types(dtype, torch.float32)
        self.max_packed = max(1, GATES_BYTES // (len(layers) * len(weight) * dtype.itemsize))
        self.fused = fused.can_run(weight.device, n_cells=config.dim, dim=weight.shape[1], dtype=dtype)
        # The kernel takes all directions as one tensor; else they stay apart, and are no copies if the type is theirs.
        hold: Callable[[list[Tensor]], Any] = torch.stack if self.fused else list
        self.weight_ih = hold([x.weight_ih.to(dtype) for x in layers])
        self.weight_hh = hold([x.weight_hh.to(dtype) for x in layers])
        projections = [x.weight_hr.to(dtype) for x in layers if x.weight_hr is not None]
        self.weight_hr = hold(projections) if projections else None
        self.bias = hold([x.whole_bias().to(self.cell_dtype) for x in layers])

    def __call__(self, x: Tensor, state: State, packing: Packing) -> tuple[Tensor, State]:
        """(direction, packed, dim) outputs, and where each row ends; rows of `state` are in the packing's order."""
        state = state[0].to(self.cell_dtype), state[1].to(self.dtype)
        return (self._fused if self.fused else self._plain)(x, state, packing)

    def _fused(self, x: Tensor, state: State, packing: Packing) -> tuple[Tensor, State]:
        gates = torch.bmm(x, self.weight_ih.mT)
        weights = self.weight_hh, self.weight_hr
        return fused.packed_steps(gates, self.bias, weights, state, self.clips, packing)

    def _plain(self, x: Tensor, state: State, packing: Packing) -> tuple[Tensor, State]:
        runs = [
            plain.packed_steps(
                F.linear(x[d], self.weight_ih[d], self.bias[d].to(self.dtype)),
                (self.weight_hh[d], None if self.weight_hr is None else self.weight_hr[d]),
                (state[0][d], state[1][d]),
                self.clips,
                packing,
            )
            for d in range(len(x))
        ]
        return _stacked(runs)


def _stacked(runs: list[tuple[Tensor, State]]) -> tuple[Tensor, State]:
    outputs, states = zip(*runs, strict=True)
    cells, hiddens = zip(*states, strict=True)
    return torch.stack(outputs), (torch.stack(cells), torch.stack(hiddens))
