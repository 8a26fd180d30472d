"""What every weight format is read into and written from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import MissingTensor, ShapeMismatch, WeightsError, all_at_once
from ..model.bilm import BiLM
from ..model.config import BiLMConfig
from ..text.vocabulary import Vocabulary

SOFTMAX = "softmax."
"""Begins the names of the softmax's tensors: they are large, and only a language model's answers need them."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where weights come from."""

    format: str
    source: str
    """File or folder name, without the machine's folders."""
    sha256: str = ""
    """Of the weights file; empty where nobody asked for it."""
    options: str = ""
    """Where that came from which the tensors do not say."""
    notes: tuple[str, ...] = ()
    """What is unusual about these files."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """How the model was trained, as far as its files say."""


@dataclass(frozen=True, kw_only=True)
class WeightBundle:
    """A model at rest: its shape, its tensors by the names of `BiLM.state_dict`, its words, its origin."""

    config: BiLMConfig
    tensors: Mapping[str, Tensor]
    provenance: Provenance
    vocabulary: Vocabulary | None = None

    def without_softmax(self) -> WeightBundle:
        tensors = {name: tensor for name, tensor in self.tensors.items() if not name.startswith(SOFTMAX)}
        return dataclasses.replace(self, config=dataclasses.replace(self.config, softmax=None), tensors=tensors)

    def n_parameters(self) -> int:
        return empty_bilm(self.config).n_parameters()

    def build(self) -> BiLM:
        """The model with these very tensors: nothing is initialised or copied."""
        bilm = empty_bilm(self.config, self.vocabulary)
        bilm.load_state_dict(dict(self.tensors), assign=True)
        return bilm.eval()


def empty_bilm(config: BiLMConfig, vocabulary: Vocabulary | None = None) -> BiLM:
    """A biLM without memory behind its tensors."""
    with torch.device("meta"):
        return BiLM(config, vocabulary)


def expected_shapes(config: BiLMConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of each tensor of a model."""
    return {name: tuple(tensor.shape) for name, tensor in empty_bilm(config).state_dict().items()}


def check_shapes(
    found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], *, where: str, hint: str
) -> None:
    """Name every tensor that is missing or of another shape, in one error."""
    missing = [f"{name} is missing, expected {list(shape)}" for name, shape in expected.items() if name not in found]
    wrong = [
        f"{name} is {list(found[name])}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    if missing or wrong:
        kind = MissingTensor if missing else ShapeMismatch
        raise kind(all_at_once(missing + wrong, where), hint=hint)


def check_finite(tensors: Iterable[tuple[str, Tensor]], *, where: str) -> None:
    """Refuse weights that hold NaN or infinity."""
    bad = [name for name, tensor in tensors if tensor.numel() and not _is_finite(tensor)]
    if bad:
        problems = [f"{name} holds NaN or infinity" for name in bad]
        raise WeightsError(all_at_once(problems, where), hint="the file is damaged or its training diverged")


def _is_finite(tensor: Tensor) -> bool:
    # The extremes carry NaN along, and need no second tensor of this size.
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) & torch.isfinite(high))
