"""The first weights of a run: random, or those of a model that is to be adapted.

A softmax is mapped word by word to the new vocabulary; a word that it never had gets the mean row and bias of those it
had. bilm HDF5 carries no softmax: there a new one learns alone first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import SettingsError
from ..model.bilm import BiLM
from ..model.config import BiLMConfig
from ..text.vocabulary import Vocabulary
from ..weights.bundle import WeightBundle
from ..weights.load import read_weights
from .settings import StartSettings


def read_start(settings: StartSettings) -> WeightBundle:
    """The model to adapt."""
    assert settings.model is not None
    bundle = read_weights((settings.options, settings.model) if settings.options else settings.model, checksum=False)
    if bundle.config.words is not None:
        raise SettingsError(
            f"{settings.model} reads words: its embedding knows its own vocabulary alone",
            hint="adapt a model that reads characters",
        )
    return bundle


def start_vocabulary(settings: StartSettings) -> Vocabulary | None:
    """The words that the model's softmax predicts, if it has one."""
    bundle = read_start(settings)
    return bundle.vocabulary if bundle.config.softmax else None


def first_weights(config: BiLMConfig, settings: StartSettings, vocabulary: Vocabulary) -> tuple[BiLM, float]:
    """The model to train, and the share of the run in which its softmax learns alone."""
    bilm = BiLM(config, vocabulary)
    if settings.model is None:
        return bilm, 0.0
    bundle = read_start(settings)
    tensors = dict(bundle.tensors)
    frozen_share = settings.frozen_share_without_softmax
    if bundle.config.softmax is not None and bundle.vocabulary is not None:
        tensors |= _mapped(tensors, bundle.vocabulary, vocabulary)
        frozen_share = settings.frozen_share
    bilm.load_state_dict(tensors, strict=False)
    return bilm, frozen_share


def _mapped(tensors: dict[str, Tensor], known: Vocabulary, words: Vocabulary) -> dict[str, Tensor]:
    rows = torch.tensor([known.ids([word])[0] if word in known else -1 for word in words.words])
    mapped = {}
    for name in ("softmax.weight", "softmax.bias"):
        old = tensors[name].float()
        new = old[rows.clamp(min=0)]
        new[rows < 0] = old.mean(dim=0)
        mapped[name] = new
    return mapped
