"""ELMo as a downstream model holds it: one biLM pass, several learned mixes of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..errors import DataError
from ..kernels.engine import Engine, autocast_dtype
from ..kernels.kept import Kept
from ..kernels.outside_graphs import outside_graphs
from ..settings import check
from .batch import BiLMOutput, BiLMState, CharacterBatch, with_marks
from .bilm import BiLM
from .scalar_mix import LayerNorm, ScalarMix


@dataclass(frozen=True)
class ElmoOutput:
    """`mixes[i]` is the i-th mix; `state` is what a caller passes back in to carry on."""

    mixes: tuple[Float[Tensor, "batch token dim"], ...]
    mask: Bool[Tensor, "batch token"]
    state: BiLMState


pytree.register_dataclass(ElmoOutput)


class Elmo(nn.Module):
    """A biLM and `n_mixes` scalar mixes over it: one for a model's input, one for its output, say.

    The biLM is frozen unless `train_bilm`. A sentence starts from the state that `start` names, by default the one
    that suits how the model was trained, or from the `state` that `forward` is given. A frozen model's own `dropout`
    is on the mixes alone.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        n_mixes: int = 1,
        mixes: Sequence[ScalarMix] | None = None,
        layer_norm: LayerNorm | None = None,
        dropout: float = 0.5,
        train_bilm: bool = False,
        keep_sentence_boundaries: bool = False,
        start: Literal["zero", "settled"] | None = None,
    ) -> None:
        super().__init__()
        check((n_mixes > 0, f"n_mixes must be positive, found {n_mixes}"))
        if mixes is None:
            mixes = [ScalarMix(bilm.config.n_layers, layer_norm=layer_norm) for _ in range(n_mixes)]
        self.bilm = bilm
        self.mixes = nn.ModuleList(mixes)
        self.dropout = nn.Dropout(dropout)
        self.train_bilm = train_bilm
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.start: Literal["zero", "settled"] = start or ("zero" if bilm.config.state == "zero" else "settled")
        self._engine = Kept[Engine]()
        bilm.requires_grad_(train_bilm)
        self.train(self.training)

    @property
    def dim(self) -> int:
        """Size of a mix's vectors, without word vectors of the caller's."""
        return self.bilm.config.dim

    def encode(self, sentences: Sequence[Sequence[str]]) -> CharacterBatch:
        return self.bilm.encode(sentences)

    def forward(
        self,
        batch: CharacterBatch | Tensor,
        state: BiLMState | None = None,
        *,
        word_vectors: Float[Tensor, "batch token static"] | None = None,
    ) -> ElmoOutput:
        """`word_vectors`, the caller's own for the same tokens, stand before each mix: [static ; ELMo]."""
        if state is None:
            state = self.bilm.start(self.start, len(batch if isinstance(batch, Tensor) else batch.index))
        if self.train_bilm:
            output = self.bilm(batch, state, marks="keep" if self.keep_sentence_boundaries else "drop")
        else:
            output = self._run(self.bilm.from_ids(batch) if isinstance(batch, Tensor) else batch, state)
        mixes = tuple(self.dropout(mix(output.layers, output.mask)) for mix in self.mixes)
        if word_vectors is not None:
            found, expected = tuple(word_vectors.shape[:2]), tuple(output.mask.shape)
            if found != expected:
                raise DataError(f"word_vectors are for {found} (batch, token), the biLM's output has {expected}")
            mixes = tuple(torch.cat([word_vectors.to(mix), mix], dim=2) for mix in mixes)
        return ElmoOutput(mixes, output.mask, output.state)

    @outside_graphs
    def _run(self, batch: CharacterBatch, state: BiLMState) -> BiLMOutput:
        """What the frozen biLM gives, by its engine."""
        dtype = autocast_dtype(self.bilm.device)
        engine = self._engine.get(self.bilm, lambda: Engine(self.bilm, dtype=dtype), kind=dtype)
        start, drop_marks = (state.cell, state.hidden), not self.keep_sentence_boundaries
        layers, mask, end = engine.padded(batch, with_marks(batch.index), start, drop_marks=drop_marks)
        return BiLMOutput(layers, mask, BiLMState(*end))

    def train(self, mode: bool = True) -> Elmo:
        super().train(mode)
        if not self.train_bilm:
            self.bilm.eval()
        return self
