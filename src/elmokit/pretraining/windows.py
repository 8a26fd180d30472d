"""All directions' LSTMs over a training window: what `LSTMStack` does, both directions of a layer at once.

A window has no padding, and the sentences in it may begin anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from ..kernels.plain import Clips
from ..kernels.recurrence import training_steps
from ..model.batch import BiLMState
from ..model.lstm import LSTMLayer, LSTMStack

Window = Float[Tensor, "direction time row dim"]
Begins = Bool[Tensor, "direction time row"]


def run_stacks(
    stacks: Sequence[LSTMStack], x: Window, state: BiLMState, *, begins: Begins | None, dropout: float
) -> tuple[Window, BiLMState]:
    """The last layer's output, and where the rows now stand; no gradient flows through the state.

    `dropout` is on each layer's input, and so on what the skip connection adds, and on the output, as published.
    """
    ends = []
    for i, layers in enumerate(zip(*(stack.layers for stack in stacks), strict=True)):
        x = F.dropout(x, dropout) if dropout else x
        output, end = run_layers(layers, x, (state.cell[:, i], state.hidden[:, i]), begins)
        x = output + x if i > 0 and stacks[0].skip else output
        ends.append(end)
    cells, hiddens = zip(*ends, strict=True)
    return F.dropout(x, dropout) if dropout else x, BiLMState(torch.stack(cells, dim=1), torch.stack(hiddens, dim=1))


def run_layers(
    layers: Sequence[LSTMLayer], x: Window, state: tuple[Tensor, Tensor], begins: Begins | None
) -> tuple[Window, tuple[Tensor, Tensor]]:
    """One layer of each direction."""
    device, config = x.device.type, layers[0].config
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else layers[0].weight_hh.dtype
    weight_ih = torch.stack([layer.weight_ih.to(dtype) for layer in layers])
    weight_hh = torch.stack([layer.weight_hh.to(dtype) for layer in layers])
    projections = [layer.weight_hr.to(dtype) for layer in layers if layer.weight_hr is not None]
    bias = torch.stack([layer.whole_bias() for layer in layers])
    with torch.autocast(device, enabled=False):
        gates = torch.bmm(x.to(dtype).flatten(1, 2), weight_ih.mT).view(*x.shape[:3], -1)
        clips = Clips(config.cell_clip, config.proj_clip)
        weights = weight_hh, torch.stack(projections) if projections else None
        return training_steps(gates, bias, weights, state, clips, begins)
