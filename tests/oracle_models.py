"""A BiLM with the weights of one of the oracle's random checkpoints, so that the two can be compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from elmokit import BiLM, BiLMConfig
from elmokit.model.config import CharCNNConfig, LSTMConfig, WordsConfig
from elmokit.text.vocabulary import Vocabulary
from elmokit.weights.key_map import bilm_entries

from reference.checkpoints import SHAPES, UNPUBLISHED, Case, random_checkpoint, vocabulary

CASES = {case.id: case for case in (*SHAPES, *UNPUBLISHED)}
PUBLISHED, WORDS, BOTH = CASES["published"], CASES["words"], CASES["words-and-chars"]


def config_of(case: Case, **changes: Any) -> BiLMConfig:
    """The library's name for a shape of the oracle's."""
    shape = case.shape
    characters = CharCNNConfig(
        dim=max(1, shape.char_dim),
        filters=shape.filters or ((1, 1),),
        activation=shape.activation,
        max_characters_per_token=shape.max_characters,
    )
    lstm = LSTMConfig(
        dim=shape.cell_dim,
        n_layers=shape.n_layers,
        projection=shape.cell_dim != shape.projection_dim,
        cell_clip=shape.cell_clip,
        proj_clip=shape.proj_clip,
        skip=shape.skip,
        forget_bias=shape.forget_bias,
    )
    usual: dict[str, Any] = {
        "token_dim": shape.projection_dim,
        "characters": characters if shape.filters else None,
        "words": WordsConfig(n_words=len(vocabulary(case)), dim=shape.word_dim) if shape.word_dim else None,
        "n_highway": shape.n_highway,
        "projection": shape.feature_dim != shape.projection_dim,
        "lstm": lstm,
        "directions": shape.directions,
    }
    return BiLMConfig(**(usual | changes))


def checkpoint_of(case: Case, seed: int = 1) -> dict[str, Any]:
    """Random weights by their usual names; an odd seed makes an LSTM that is clipped."""
    return random_checkpoint(replace(case, names="usual", char_rows=261), seed)


def bilm_of(case: Case, *, seed: int = 1, dtype: torch.dtype = torch.float64, **changes: Any) -> BiLM:
    """The model of a checkpoint; `changes` are to its config."""
    config, weights = config_of(case, **changes), checkpoint_of(case, seed)
    words = Vocabulary(tuple(vocabulary(case))) if case.shape.word_dim else None
    bilm = BiLM(config, words)
    tensors = {
        ours: tensor
        for entry in bilm_entries(config)
        for ours, tensor in zip(entry.ours, entry.layout.read(torch.from_numpy(weights[entry.theirs])), strict=True)
    }
    bilm.load_state_dict(tensors)
    return bilm.to(dtype).eval()
