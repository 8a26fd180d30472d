"""Who is measured: elmokit as a downstream model uses it, and as a user with a text does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from ..embed.embedder import Embedder, Precision
from ..kernels.engine import Engine
from ..model.batch import CharacterBatch, with_marks
from .allennlp_process import timed

Batch = Sequence[Sequence[str]]
"""Sentences that run together."""

Vectors = Float[ndarray, "layer token dim"]

_FIRST_WORD = "\u2603"
"""No text needs it: it is known before the clock starts."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What `timed` gives."""

    seconds: float
    process_bytes: int
    device_bytes: int | None


class Side(Protocol):
    """What can be measured: it takes a list of batches, and runs through them."""

    name: str
    words_are_kept: bool
    """Whether a word that an earlier batch had need not be read again."""

    @property
    def precision(self) -> str:
        """What it multiplies in: the ceiling that it is held against."""

    def take(self, batches: Sequence[Batch]) -> None:
        """Prepare these batches, before any clock runs."""

    def vectors(self, number: int) -> list[Vectors]:
        """Each sentence of one batch, without marks."""

    def run(self, passes: int) -> Timing:
        """All batches, so many times."""


class ModuleSide:
    """Batches encoded beforehand, on the CPU, to padded layers on the device, marks among them, as AllenNLP's module.

    Nothing is kept from batch to batch: a batch's distinct words go through the character CNN each time.
    """

    name = "elmokit"
    words_are_kept = False

    def __init__(self, embedder: Embedder, *, precision: Precision) -> None:
        self.bilm, self.precision = embedder.bilm, precision
        self.engine = Engine(embedder.bilm, dtype=embedder.engine_dtype)
        self.batches: list[CharacterBatch] = []

    def take(self, batches: Sequence[Batch]) -> None:
        self.batches = [self.bilm.encode(batch).to("cpu") for batch in batches]

    def vectors(self, number: int) -> list[Vectors]:
        batch = self.batches[number]
        layers = self._layers(batch).float().cpu().numpy()
        lengths = batch.mask.sum(dim=1).tolist()
        return [layers[:, row, 1 : length + 1] for row, length in enumerate(lengths)]

    def run(self, passes: int) -> Timing:
        return Timing(**timed(self._pass, passes=passes, device=str(self.bilm.device)))

    def _pass(self) -> None:
        for batch in self.batches:
            self._layers(batch)

    @torch.inference_mode()
    def _layers(self, batch: CharacterBatch) -> torch.Tensor:
        start = self.bilm.start("zero", len(batch.index))
        layers, mask, _ = self.engine.padded(
            batch, with_marks(batch.index), (start.cell, start.hidden), drop_marks=False
        )
        mask.to(layers.device)  # AllenNLP's is there too
        return layers


class EmbedderSide:
    """Tokens in, NumPy out, a batch's sentences at a time; each pass reads the text for the first time."""

    name = "embedder"
    words_are_kept = True

    def __init__(self, embedder: Embedder, *, precision: Precision) -> None:
        self.embedder, self.precision = embedder, precision
        self.batches: Sequence[Batch] = ()

    def take(self, batches: Sequence[Batch]) -> None:
        self.batches = batches

    def vectors(self, number: int) -> list[Vectors]:
        return [np.asarray(found.layers, np.float32) for found in self.embedder.embed(self.batches[number])]

    def run(self, passes: int) -> Timing:
        device = str(self.embedder.bilm.device)
        return Timing(**timed(self._pass, passes=passes, device=device, prepare=self._forget))

    def _pass(self) -> None:
        for batch in self.batches:
            self.embedder.embed(batch)

    def _forget(self) -> None:
        """A new embedder, whose table of words is empty; its engine is built with its first sentence."""
        bilm, state = self.embedder.bilm, self.embedder.state
        # The old one is let go of first: two engines at once would count as memory.
        self.embedder = Embedder(bilm, state=state, device=str(bilm.device), precision=self.precision)
        self.embedder.embed([[_FIRST_WORD]])
