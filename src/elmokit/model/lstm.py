"""The recurrence of ELMo: an LSTM with a projection and two clips, run over rows of unequal length.

What is special, against `nn.LSTM(proj_size=...)`: the cell is clipped before the output gate, the projected output is
clipped before it is carried on, and the skip connection adds a layer's input *behind* the recurrence, so that the
state never holds it. Gates stand in PyTorch's order: input, forget, cell, output. This is the specification; whatever
is faster is tested against it.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from .config import LSTMConfig

Cell = Float[Tensor, "batch cell"]
Hidden = Float[Tensor, "batch dim"]
Steps = Bool[Tensor, "batch time"]


class LSTMLayer(nn.Module):
    """One layer in one direction."""

    def __init__(self, config: LSTMConfig, *, token_dim: int) -> None:
        super().__init__()
        self.config = config
        self.weight_ih = nn.Parameter(torch.empty(4 * config.dim, token_dim))
        self.weight_hh = nn.Parameter(torch.empty(4 * config.dim, token_dim))
        self.bias = nn.Parameter(torch.empty(4 * config.dim))
        self.weight_hr = nn.Parameter(torch.empty(token_dim, config.dim)) if config.projection else None
        for weight in (self.weight_ih, self.weight_hh, self.weight_hr):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Float[Tensor, "batch time dim"],
        state: tuple[Cell, Hidden],
        *,
        mask: Steps | None = None,
        begins: Steps | None = None,
    ) -> tuple[Float[Tensor, "batch time dim"], tuple[Cell, Hidden]]:
        """Where `mask` is False the state stands still (padding comes last); where `begins` is True it starts anew."""
        cell, hidden = state
        outputs: list[Tensor] = []
        for t, gates in enumerate(F.linear(x, self.weight_ih, self.whole_bias()).unbind(dim=1)):
            if begins is not None:
                cell, hidden = (past.masked_fill(begins[:, t, None], 0) for past in (cell, hidden))
            past = cell, hidden
            cell, hidden = self.step(gates, cell, hidden)
            outputs.append(hidden)
            if mask is not None:
                here = mask[:, t, None]
                cell, hidden = torch.where(here, cell, past[0]), torch.where(here, hidden, past[1])
        return torch.stack(outputs, dim=1) if outputs else x, (cell, hidden)

    def step(self, gates: Float[Tensor, "batch gate"], cell: Cell, hidden: Hidden) -> tuple[Cell, Hidden]:
        i, f, g, o = (gates + F.linear(hidden, self.weight_hh)).chunk(4, dim=1)
        cell = _clip(torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g), self.config.cell_clip)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        if self.weight_hr is not None:
            hidden = _clip(F.linear(hidden, self.weight_hr), self.config.proj_clip)
        return cell, hidden

    def whole_bias(self) -> Float[Tensor, "gate"]:
        if self.config.forget_bias == 0:
            return self.bias
        i, f, g, o = self.bias.chunk(4)
        return torch.cat([i, f + self.config.forget_bias, g, o])


class LSTMStack(nn.Module):
    """All layers of one direction."""

    def __init__(self, config: LSTMConfig, *, token_dim: int) -> None:
        super().__init__()
        self.skip = config.skip
        self.layers = nn.ModuleList(LSTMLayer(config, token_dim=token_dim) for _ in range(config.n_layers))

    def forward(
        self,
        x: Float[Tensor, "batch time dim"],
        state: tuple[Float[Tensor, "layer batch cell"], Float[Tensor, "layer batch dim"]],
        *,
        mask: Steps | None = None,
        begins: Steps | None = None,
    ) -> tuple[Float[Tensor, "layer batch time dim"], tuple[Tensor, Tensor]]:
        outputs, ends = [], []
        for i, (layer, *start) in enumerate(zip(self.layers, *state, strict=True)):
            output, end = layer(x, tuple(start), mask=mask, begins=begins)
            x = output + x if self.skip and i > 0 else output
            outputs.append(x)
            ends.append(end)
        cells, hiddens = zip(*ends, strict=True)
        return torch.stack(outputs), (torch.stack(cells), torch.stack(hiddens))


def reverse(x: Float[Tensor, "*layer batch time dim"], mask: Bool[Tensor, "batch time"]) -> Tensor:
    """Turn each sentence around within its own length; padding stays last."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    lengths = mask.sum(dim=1, keepdim=True)
    turned = torch.where(mask, lengths - 1 - positions, positions)
    return x.gather(-2, turned.unsqueeze(-1).expand(x.shape))


def _clip(x: Tensor, bound: float | None) -> Tensor:
    return x if bound is None else x.clamp(-bound, bound)
