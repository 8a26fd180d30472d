"""Adapting a model to another text: a pretraining run that starts from it, and leaves it in the old format too."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ..model.config import BiLMConfig
from ..runs import Run
from ..settings import to_plain
from ..weights.load import read_weights, write_weights
from .run import Watch, pretrain
from .settings import PretrainSettings, StartSettings
from .start import read_start

HDF5 = "bilm-hdf5"


def adapted_shape(start: StartSettings) -> BiLMConfig:
    """The model's own shape, text settings and state: all that a run adapts is its weights and its words."""
    return dataclasses.replace(read_start(start).config, softmax=None)


def adapt(settings: PretrainSettings, folder: str | Path, *, watch: Watch | None = None) -> dict[str, Any]:
    """Run `settings`, whose `start.model` names the model, and write the best model as bilm HDF5 beside `best/`."""
    result = pretrain(settings, folder, watch=watch)
    run = Run(Path(folder))
    if result and not (run.folder / HDF5).exists():
        with run.replacing(HDF5) as target:
            write_weights(read_weights(run.folder, softmax=False), target, format="bilm-hdf5")
    return result


def with_shape(data: dict[str, Any], start: StartSettings) -> dict[str, Any]:
    """A recipe's tables with the shape of the model that is to be adapted."""
    return {**data, "bilm": to_plain(adapted_shape(start)), "start": {**data.get("start", {}), **to_plain(start)}}
