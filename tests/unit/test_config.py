"""The shapes of a biLM: the published ones, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from elmokit import BiLMConfig
from elmokit.errors import SettingsError
from elmokit.model.config import CharCNNConfig, LSTMConfig, SoftmaxConfig, WordsConfig
from elmokit.settings import from_plain, to_plain

PRESETS = ("tiny", "small", "medium", "original")


@pytest.mark.parametrize(
    ("preset", "token_dim", "cells", "n_highway"),
    [("small", 128, 1024, 1), ("medium", 256, 2048, 1), ("original", 512, 4096, 2)],
)
def test_published_presets(preset: str, token_dim: int, cells: int, n_highway: int) -> None:
    config = getattr(BiLMConfig, preset)()
    assert (config.token_dim, config.lstm.dim, config.n_highway) == (token_dim, cells, n_highway)
    assert (config.n_layers, config.dim, config.read_dim) == (3, 2 * token_dim, 2048)
    assert (config.lstm.cell_clip, config.lstm.proj_clip, config.lstm.skip) == (3.0, 3.0, True)
    assert config.characters.max_characters_per_token == 50
    assert config.characters.n_characters == 262


@pytest.mark.parametrize("preset", PRESETS)
def test_a_config_survives_being_written_down(preset: str) -> None:
    config = getattr(BiLMConfig, preset)()
    assert from_plain(BiLMConfig, to_plain(config), where="config.json") == config


def test_words_and_one_direction_survive_too() -> None:
    config = BiLMConfig(
        token_dim=8,
        characters=None,
        words=WordsConfig(n_words=9, dim=8),
        projection=False,
        n_highway=0,
        lstm=LSTMConfig(dim=8, projection=False, cell_clip=None, proj_clip=None),
        directions=("backward",),
        softmax=SoftmaxConfig(n_words=9, tied=True),
    )
    assert from_plain(BiLMConfig, to_plain(config), where="config.json") == config
    assert (config.dim, config.read_dim) == (8, 8)


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (CharCNNConfig, {"dim": 0}, "dim must be positive, found 0"),
        (CharCNNConfig, {"filters": ()}, "filters must not be empty"),
        (CharCNNConfig, {"filters": ((0, 4),)}, "filters must be positive"),
        (CharCNNConfig, {"max_characters_per_token": 2}, "must be at least 3, found 2"),
        (CharCNNConfig, {"max_characters_per_token": 6}, "is 6, less than a filter is wide"),
        (CharCNNConfig, {"n_characters": 261}, "at least 262, found 261"),
        (WordsConfig, {"n_words": 0, "dim": 4}, "n_words must be positive"),
        (WordsConfig, {"n_words": 4, "dim": -1}, "dim must be positive, found -1"),
        (LSTMConfig, {"dim": 0}, "dim must be positive"),
        (LSTMConfig, {"n_layers": 0}, "n_layers must be positive"),
        (LSTMConfig, {"cell_clip": 0.0}, "cell_clip must be positive or absent"),
        (LSTMConfig, {"proj_clip": -3.0}, "proj_clip must be positive or absent"),
        (SoftmaxConfig, {"n_words": 0}, "n_words must be positive"),
        (BiLMConfig, {"token_dim": 0}, "token_dim must be positive"),
        (BiLMConfig, {"n_highway": -1}, "n_highway must not be negative"),
        (BiLMConfig, {"characters": None}, "reads characters, words or both"),
        (BiLMConfig, {"directions": ()}, "directions are forward, backward or both"),
        (BiLMConfig, {"directions": ("backward", "forward")}, r"in order: \('backward', 'forward'\)"),
        (BiLMConfig, {"projection": False}, "without a projection token_dim must be 2048, found 512"),
        (BiLMConfig, {"lstm": LSTMConfig(dim=64, projection=False)}, "lstm.dim must be 512, found 64"),
        (BiLMConfig, {"softmax": SoftmaxConfig(n_words=4, tied=True)}, "tied softmax needs word embeddings"),
    ],
)
def test_what_no_model_can_be_is_refused(kind: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        kind(**wrong)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SettingsError, match=r"dim must .*; n_layers must .*; cell_clip must"):
        LSTMConfig(dim=0, n_layers=0, cell_clip=-1.0)


def test_configs_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        BiLMConfig.tiny().token_dim = 3  # type: ignore[misc]
