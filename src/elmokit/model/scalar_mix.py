"""What a task learns of a frozen biLM: gamma * sum over layers of softmax(s)_j * h_j (the paper's equation 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..settings import check

LayerNorm = Literal["batch", "token"]
_EPSILON = 1e-12


class ScalarMix(nn.Module):
    """A weighted sum of layers, whose weights and scale are learned.

    `layer_norm="batch"` is the published one: one mean and variance for each layer over *all* tokens of the batch, so
    a token's vector depends on its batch; `"token"` normalises each token on its own. `initial` are scores before the
    softmax. `dropout` leaves whole layers out in training.
    """

    def __init__(
        self,
        n_layers: int = 3,
        *,
        layer_norm: LayerNorm | None = None,
        initial: Sequence[float] | None = None,
        trainable: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        initial = [0.0] * n_layers if initial is None else list(initial)
        check(
            (n_layers > 0, f"n_layers must be positive, found {n_layers}"),
            (layer_norm in (None, "batch", "token"), f"layer_norm is None, 'batch' or 'token', found {layer_norm!r}"),
            (len(initial) == n_layers, f"initial needs {n_layers} scores, found {len(initial)}"),
            (0 <= dropout < 1, f"dropout must be in [0, 1), found {dropout}"),
        )
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.scores = nn.Parameter(torch.tensor(initial, dtype=torch.float32), requires_grad=trainable)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    @classmethod
    def top(cls, n_layers: int = 3) -> ScalarMix:
        """The last layer alone, with a learned scale (TagLM's choice)."""
        mix = cls(n_layers, initial=[-1e4] * (n_layers - 1) + [0.0])
        mix.scores.requires_grad_(False)
        return mix

    def weights(self) -> Float[Tensor, "layer"]:
        """The layers' shares: positive, of sum 1."""
        return self.scores.softmax(dim=0)

    def penalty(self, l2: float) -> Float[Tensor, ""]:
        """The paper's lambda * |w|^2, to be added to a loss: a large one makes the mix the mean of the layers."""
        return l2 * self.scores.square().sum() * self.scores.requires_grad  # fixed scores cost nothing

    def forward(
        self, layers: Float[Tensor, "layer batch token dim"], mask: Bool[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch token dim"]:
        n_layers = len(self.scores)
        check((len(layers) == n_layers, f"this mix is for {n_layers} layers, found {len(layers)}"))
        if self.layer_norm is not None:
            layers = _normalised(layers, mask, over_batch=self.layer_norm == "batch")
        weights = self._scores_in_use().softmax(dim=0)
        return self.gamma * torch.einsum("l,lbtd->btd", weights.to(layers.dtype), layers)

    def _scores_in_use(self) -> Float[Tensor, "layer"]:
        if not self.training or self.dropout == 0:
            return self.scores
        dropped = torch.rand_like(self.scores) < self.dropout
        return self.scores.masked_fill(dropped & ~dropped.all(), -torch.inf)


def _normalised(
    layers: Float[Tensor, "layer batch token dim"], mask: Bool[Tensor, "batch token"] | None, *, over_batch: bool
) -> Float[Tensor, "layer batch token dim"]:
    mask = layers.new_ones(layers.shape[1:3], dtype=torch.bool) if mask is None else mask
    present, dtype = mask[None, :, :, None], layers.dtype
    layers = layers.to(torch.promote_types(dtype, torch.float32))  # float16 cannot hold a square, nor the epsilon
    axes = (1, 2, 3) if over_batch else (3,)
    n = (present.sum().clamp(min=1) if over_batch else 1) * layers.shape[3]
    mean = (layers * present).sum(dim=axes, keepdim=True) / n
    centred = (layers - mean) * present
    variance = centred.square().sum(dim=axes, keepdim=True) / n
    return (centred * torch.rsqrt(variance + _EPSILON)).to(dtype)
