"""elmokit: ELMo on today's Python and PyTorch.

    import elmokit

    embedder = elmokit.load("weights.hdf5")
    sentences = embedder.embed(["The river bank flooded."])
    sentences[0].tokens, sentences[0].layers.shape

The names below are all that is public. They are imported when first used, so that `import elmokit` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embed.embedder import Embedder, load
    from .embed.language_model import Perplexity, TokenScores
    from .embed.vectors import SentenceVectors
    from .errors import (
        ChecksumMismatch,
        DataError,
        ElmokitError,
        MissingExtra,
        MissingTensor,
        RunError,
        SettingsError,
        ShapeMismatch,
        UnknownFormat,
        WeightsError,
    )
    from .model.batch import BiLMOutput, BiLMState, CharacterBatch
    from .model.bilm import BiLM
    from .model.config import BiLMConfig
    from .model.elmo import Elmo, ElmoOutput
    from .model.scalar_mix import ScalarMix
    from .pretraining.run import pretrain
    from .pretraining.settings import PretrainSettings
    from .text.tokens import Tokens
    from .weights.bundle import WeightBundle
    from .weights.load import load_bilm, read_weights, write_weights

__version__ = "0.1.0.dev0"

_HOME = {
    "embed.embedder": ("Embedder", "load"),
    "embed.language_model": ("Perplexity", "TokenScores"),
    "embed.vectors": ("SentenceVectors",),
    "errors": (
        "ChecksumMismatch",
        "DataError",
        "ElmokitError",
        "MissingExtra",
        "MissingTensor",
        "RunError",
        "SettingsError",
        "ShapeMismatch",
        "UnknownFormat",
        "WeightsError",
    ),
    "pretraining.run": ("pretrain",),
    "pretraining.settings": ("PretrainSettings",),
    "text.tokens": ("Tokens",),
    "model.batch": ("BiLMOutput", "BiLMState", "CharacterBatch"),
    "model.bilm": ("BiLM",),
    "model.config": ("BiLMConfig",),
    "model.elmo": ("Elmo", "ElmoOutput"),
    "model.scalar_mix": ("ScalarMix",),
    "weights.bundle": ("WeightBundle",),
    "weights.load": ("load_bilm", "read_weights", "write_weights"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "BiLM",
    "BiLMConfig",
    "BiLMOutput",
    "BiLMState",
    "CharacterBatch",
    "ChecksumMismatch",
    "DataError",
    "Elmo",
    "ElmoOutput",
    "ElmokitError",
    "Embedder",
    "MissingExtra",
    "MissingTensor",
    "Perplexity",
    "PretrainSettings",
    "RunError",
    "ScalarMix",
    "SentenceVectors",
    "SettingsError",
    "ShapeMismatch",
    "TokenScores",
    "Tokens",
    "UnknownFormat",
    "WeightBundle",
    "WeightsError",
    "__version__",
    "load",
    "load_bilm",
    "pretrain",
    "read_weights",
    "write_weights",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'elmokit' has no attribute '{name}'")
    value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
