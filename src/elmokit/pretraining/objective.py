"""The biLM's objective: the mean of both directions' negative log likelihood, with what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from ..kernels.characters import fastest
from ..kernels.engine import autocast_dtype
from ..model.batch import BiLMState
from ..model.bilm import BiLM
from .batches import LMBatch
from .settings import ObjectiveSettings
from .softmax_loss import LogUniformSamples, full_loss, sampled_loss
from .windows import run_stacks

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

    def samples(self, seed: tuple[int, ...]) -> tuple[LogUniformSamples, ...]:
        """For each direction the words that stand for all others in a step; none where the softmax is full."""
        if self.softmax == "full":
            return ()
        assert self.bilm.softmax is not None
        n_words, n_samples = len(self.bilm.softmax.bias), self.settings.n_samples
        directions = range(len(self.bilm.config.directions))
        return tuple(LogUniformSamples(n_samples, n_words, seed=[*seed, i]) for i in directions)

    def forward(
        self, batch: LMBatch, state: BiLMState, *, seed: tuple[int, ...], samples: tuple[LogUniformSamples, ...] = ()
    ) -> Losses:
        """`seed` decides dropout and, unless they were drawn before, samples: a step can be run again to the bit."""
        samples = samples or self.samples(seed)
        torch.manual_seed(_one_number(seed))
        token_layer, device = self.bilm.token_layer, self.bilm.device
        convolutions = None if token_layer.characters is None else token_layer.characters.convolutions
        dtype = autocast_dtype(device) or torch.float32
        vectors = token_layer(batch.table, fastest(convolutions, device, dtype))
        x = torch.stack([F.embedding(stream.index.t(), vectors) for stream in batch.streams])
        begins = torch.stack([stream.begins.t() for stream in batch.streams])
        top, end = run_stacks(
            [getattr(self.bilm, f"{direction}_lstm") for direction in self.bilm.config.directions],
            x,
            state,
            begins=begins if self.bilm.config.state == "zero" else None,
            dropout=self.settings.dropout if self.training else 0.0,
        )
        losses = [
            self._loss(hidden.flatten(0, 1), stream.targets.t().flatten(), samples[i] if samples else None)
            for i, (hidden, stream) in enumerate(zip(top, batch.streams, strict=True))
        ]
        return Losses(torch.stack(losses), end)

    def _loss(self, hidden: Tensor, targets: Tensor, samples: LogUniformSamples | None) -> Float[Tensor, ""]:
        weight, bias = self.bilm.softmax_weights()
        if samples is None:
            return full_loss(hidden, weight, bias, targets).mean()
        return sampled_loss(hidden, weight, bias, targets, samples=samples).mean()


def _one_number(seed: tuple[int, ...]) -> int:
    """A tuple of small numbers as one that generators take."""
    result = 0
    for number in seed:
        result = (result * 1_000_003 + number) % (1 << 62)
    return result
