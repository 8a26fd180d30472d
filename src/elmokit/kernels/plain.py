"""One layer's recurrence in one direction, in plain PyTorch: it runs on every device and in every precision.

Training has its own backward pass. What it saves against PyTorch's autograd: gates and cells are kept in four tensors
instead of a graph of some forty nodes a step, and the gradients of the weights are one product over all steps instead
of one for each. Matrices are multiplied in `dtype`; sums, gates and cells stay float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .packing import Packing


@dataclass(frozen=True)
class Clips:
    """Bounds of the cell and of the projected output."""

    cell: float | None
    projection: float | None


def packed_steps(
    gates: Tensor,
    weights: tuple[Tensor, Tensor | None],
    state: tuple[Tensor, Tensor],
    clips: Clips,
    packing: Packing,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Packed outputs and each row's last state, without gradients; rows of `state` are in the packing's order."""
    weight_hh, weight_hr = weights
    cell, hidden = state[0].clone(), state[1].to(gates.dtype, copy=True)
    outputs = gates.new_empty(len(gates), hidden.shape[1])
    for n, offset in zip(packing.counts.tolist(), packing.offsets.tolist(), strict=True):
        now = torch.addmm(gates[offset : offset + n], hidden[:n], weight_hh.t()).to(cell.dtype)
        i, f, g, o = now.chunk(4, dim=1)
        new = torch.sigmoid_(f).mul_(cell[:n]).addcmul_(torch.sigmoid_(i), torch.tanh_(g))
        if clips.cell is not None:
            new.clamp_(-clips.cell, clips.cell)
        cell[:n] = new
        inner = torch.sigmoid_(o).mul_(new.tanh()).to(gates.dtype)
        here = outputs[offset : offset + n]
        if weight_hr is None:
            here.copy_(inner)
        else:
            torch.mm(inner, weight_hr.t(), out=here)
            if clips.projection is not None:
                here.clamp_(-clips.projection, clips.projection)
        hidden[:n] = here
    return outputs, (cell, hidden)


def training_steps(
    gates: Tensor,
    weights: tuple[Tensor, Tensor | None],
    state: tuple[Tensor, Tensor],
    clips: Clips,
    begins: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """`gates` (time, batch, 4 cells) hold what the inputs contribute, bias and all; `begins` (time, batch) resets.

    Returns (time, batch, dim) outputs and the last state, through which no gradient flows back: the published training
    cuts it there.
    """
    outputs, cell, hidden = _Steps.apply(gates, *weights, *state, clips, begins)  # type: ignore[no-untyped-call]
    return outputs, (cell, hidden)


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        weight_hh: Tensor,
        weight_hr: Tensor | None,
        cell: Tensor,
        hidden: Tensor,
        clips: Clips,
        begins: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        n_steps, n_rows, n_cells = len(gates), *cell.shape
        dtype, real = weight_hh.dtype, cell.dtype
        active = torch.empty(gates.shape, dtype=real, device=gates.device)
        cells = torch.empty(n_steps + 1, n_rows, n_cells, dtype=real, device=gates.device)
        inner = torch.empty(n_steps, n_rows, n_cells, dtype=dtype, device=gates.device)
        hiddens = torch.empty(n_steps + 1, *hidden.shape, dtype=dtype, device=gates.device)
        cells[0], hiddens[0] = cell, hidden
        by_hidden, by_inner = weight_hh.t(), None if weight_hr is None else weight_hr.t()
        for t in range(n_steps):
            now = torch.add(gates[t], _before(hiddens, begins, t) @ by_hidden, out=active[t])
            i, f, g, o = now.chunk(4, dim=1)
            now[:, : 2 * n_cells].sigmoid_()
            g.tanh_()
            o.sigmoid_()
            new = torch.mul(f, _before(cells, begins, t), out=cells[t + 1]).addcmul_(i, g)
            if clips.cell is not None:
                new.clamp_(-clips.cell, clips.cell)
            inner[t] = o * new.tanh()
            if by_inner is None:
                hiddens[t + 1] = inner[t]
            else:
                torch.mm(inner[t], by_inner, out=hiddens[t + 1])
                if clips.projection is not None:
                    hiddens[t + 1].clamp_(-clips.projection, clips.projection)
        ctx.save_for_backward(active, cells, inner, hiddens, weight_hh, weight_hr, begins)
        ctx.clips = clips
        ctx.set_materialize_grads(False)
        ends = cells[-1].clone(), hiddens[-1].to(real)
        ctx.mark_non_differentiable(*ends)
        return hiddens[1:].to(gates.dtype), *ends

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        active, cells, inner, hiddens, weight_hh, weight_hr, begins = ctx.saved_tensors
        n_steps, n_rows, n_cells = inner.shape
        like = {"dtype": cells.dtype, "device": grad.device}
        to_gates, to_output, to_cell, kept = _slopes(active, cells, begins)
        grad_gates = torch.empty(n_steps, n_rows, 4, n_cells, dtype=weight_hh.dtype, device=grad.device)
        grad_projected = torch.empty(n_steps, *hiddens.shape[1:], dtype=weight_hh.dtype, device=grad.device)
        grad_hidden = torch.zeros(hiddens.shape[1:], **like)
        grad_cell = torch.zeros(n_rows, n_cells, **like)
        for t in reversed(range(n_steps)):
            grad_inner = torch.add(grad_hidden, grad[t])
            if weight_hr is not None:
                if ctx.clips.projection is not None:
                    grad_inner = _inside(grad_inner, hiddens[t + 1], ctx.clips.projection)
                grad_projected[t] = grad_inner
                grad_inner = (grad_projected[t] @ weight_hr).to(cells.dtype)
            grad_cell = torch.addcmul(grad_cell, grad_inner, to_cell[t])
            if ctx.clips.cell is not None:
                grad_cell = _inside(grad_cell, cells[t + 1], ctx.clips.cell)
            torch.mul(grad_cell.unsqueeze(1), to_gates[t], out=to_gates[t])
            grad_gates[t, :, :3] = to_gates[t]
            grad_gates[t, :, 3] = grad_inner * to_output[t]
            grad_cell = grad_cell * kept[t]
            grad_hidden = (grad_gates[t].flatten(1) @ weight_hh).to(cells.dtype)
            if begins is not None:
                grad_hidden.masked_fill_(begins[t, :, None], 0)
        flat = grad_gates.flatten(2)
        before = hiddens[:-1] if begins is None else hiddens[:-1].masked_fill(begins.unsqueeze(2), 0)
        grad_hh = flat.flatten(0, 1).t() @ before.flatten(0, 1)
        grad_hr = None if weight_hr is None else grad_projected.flatten(0, 1).t() @ inner.flatten(0, 1)
        return flat, grad_hh, grad_hr, None, None, None, None


def _slopes(active: Tensor, cells: Tensor, begins: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What a step's gradients are multiplied by, for all steps at once: (time, batch, ...) each.

    From the cell to the input, forget and cell gates; from the output to its gate; from the output to the cell; from
    the cell to the one before.
    """
    i, f, g, o = active.chunk(4, dim=2)
    before = cells[:-1] if begins is None else cells[:-1].masked_fill(begins.unsqueeze(2), 0)
    shown = cells[1:].tanh()
    to_gates = torch.stack([g * (i - i * i), before * (f - f * f), i * (1 - g * g)], dim=2)
    kept = f if begins is None else f.masked_fill(begins.unsqueeze(2), 0)
    return to_gates, shown * (o - o * o), o * (1 - shown * shown), kept


def _before(states: Tensor, begins: Tensor | None, t: int) -> Tensor:
    """The state that step t starts from: zero where a sentence begins."""
    return states[t] if begins is None else states[t].masked_fill(begins[t, :, None], 0)


def _inside(grad: Tensor, value: Tensor, bound: float) -> Tensor:
    """No gradient where a value was clipped."""
    return grad.masked_fill(value.abs() >= bound, 0)
