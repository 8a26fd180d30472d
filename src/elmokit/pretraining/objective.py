"""The biLM's objective: the mean of both directions' negative log likelihood, with what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from ..kernels.recurrence import Clips, recurrence
from ..model.batch import BiLMState
from ..model.bilm import BiLM
from ..model.lstm import LSTMLayer, LSTMStack
from .batches import LMBatch, Stream
from .settings import ObjectiveSettings
from .softmax_loss import LogUniformSamples, full_loss, sampled_loss

Softmax = Literal["full", "sampled"]


@dataclass(frozen=True)
class Losses:
    """Mean nats a prediction, for each direction of the model; `state` is where its rows now stand."""

    directions: Float[Tensor, "direction"]
    state: BiLMState

    @property
    def mean(self) -> Float[Tensor, ""]:
        return self.directions.mean()


pytree.register_dataclass(Losses)


def choose_softmax(settings: ObjectiveSettings, n_words: int) -> Softmax:
    """`auto` resolved; a sample of half the vocabulary or more saves nothing, and is drawn slowly."""
    if settings.softmax != "auto":
        return "full" if 2 * settings.n_samples >= n_words else settings.softmax
    return "full" if n_words <= max(settings.full_up_to, 2 * settings.n_samples) else "sampled"


class Objective(nn.Module):
    """A biLM with a softmax, as a module whose output is its loss."""

    def __init__(self, bilm: BiLM, settings: ObjectiveSettings) -> None:
        super().__init__()
        assert bilm.softmax is not None
        self.bilm = bilm
        self.settings = settings
        self.softmax = choose_softmax(settings, len(bilm.softmax.bias))

    def forward(self, batch: LMBatch, state: BiLMState, *, seed: tuple[int, ...]) -> Losses:
        """`seed` decides dropout and samples, so that a step can be run again to the bit."""
        torch.manual_seed(_one_number(seed))
        vectors = self.bilm.token_layer(batch.table)
        losses, ends = [], []
        for i, (direction, stream) in enumerate(zip(self.bilm.config.directions, batch.streams, strict=True)):
            top, end = self._run(direction, vectors, stream, (state.cell[i], state.hidden[i]))
            losses.append(self._loss(top.flatten(0, 1), stream.targets.flatten(), seed=[*seed, i]))
            ends.append(end)
        return Losses(torch.stack(losses), BiLMState(*map(torch.stack, zip(*ends, strict=True))))

    def _run(
        self, direction: str, vectors: Tensor, stream: Stream, start: tuple[Tensor, Tensor]
    ) -> tuple[Float[Tensor, "row time dim"], tuple[Tensor, Tensor]]:
        stack: LSTMStack = getattr(self.bilm, f"{direction}_lstm")
        dropout = self.settings.dropout if self.training else 0.0
        begins = stream.begins if self.bilm.config.state == "zero" else None
        layers, end = stack(F.embedding(stream.index, vectors), start, begins=begins, dropout=dropout, run=run_layer)
        return F.dropout(layers[-1], dropout, self.training), end

    def _loss(self, hidden: Tensor, targets: Tensor, *, seed: list[int]) -> Float[Tensor, ""]:
        weight, bias = self.bilm.softmax_weights()
        if self.softmax == "full":
            return full_loss(hidden, weight, bias, targets).mean()
        samples = LogUniformSamples(self.settings.n_samples, len(bias), seed=seed)
        return sampled_loss(hidden, weight, bias, targets, samples=samples).mean()


def run_layer(
    layer: LSTMLayer, x: Tensor, state: tuple[Tensor, Tensor], *, mask: None, begins: Tensor | None
) -> tuple[Float[Tensor, "row time dim"], tuple[Tensor, Tensor]]:
    """What `LSTMLayer` does, by the training kernel. A window has no padding."""
    device, dtype = x.device.type, layer.weight_hh.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    gates = F.linear(x.transpose(0, 1), layer.weight_ih, layer.whole_bias())
    weights = layer.weight_hh.to(dtype), None if layer.weight_hr is None else layer.weight_hr.to(dtype)
    clips = Clips(layer.config.cell_clip, layer.config.proj_clip)
    with torch.autocast(device, enabled=False):
        outputs, end = recurrence(gates, weights, state, clips, None if begins is None else begins.t())
    return outputs.transpose(0, 1), end


def _one_number(seed: tuple[int, ...]) -> int:
    """A tuple of small numbers as one that generators take."""
    result = 0
    for number in seed:
        result = (result * 1_000_003 + number) % (1 << 62)
    return result
