"""What every weight format is read into and written from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..errors import MissingTensor, ShapeMismatch, WeightsError, all_at_once
from ..model.bilm import BiLM
from ..model.config import BiLMConfig
from ..text.vocabulary import Vocabulary

SOFTMAX = "softmax."
"""Begins the names of the softmax's tensors: they are large, and only a language model's answers need them."""

MAX_LAYERS, MAX_SIZE, MAX_WORDS = 100, 1 << 20, 1 << 31
"""Far beyond every model; products of such sizes still fit the whole numbers that tensors count with."""


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
    converted_from: Mapping[str, Any] = field(default_factory=dict)
    """The provenance of the files that these were made from."""

    def __post_init__(self) -> None:
        # A file may have a name that is no UTF-8: it must still be printed and stored.
        for name in ("source", "options"):
            object.__setattr__(self, name, getattr(self, name).encode("utf-8", "backslashreplace").decode())


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

    def with_forget_bias(self, forget_bias: float) -> WeightBundle:
        """The same model with another part of the forget gate's bias stored beside it; rounding may show."""
        to_add = self.config.lstm.forget_bias - forget_bias
        if to_add == 0:
            return self
        lstm = dataclasses.replace(self.config.lstm, forget_bias=forget_bias)
        tensors = {
            name: _with_forget_gate(tensor, to_add) if "_lstm." in name and name.endswith(".bias") else tensor
            for name, tensor in self.tensors.items()
        }
        return dataclasses.replace(self, config=dataclasses.replace(self.config, lstm=lstm), tensors=tensors)

    def n_parameters(self) -> int:
        return empty_bilm(self.config).n_parameters()

    def build(self) -> BiLM:
        """The model with these very tensors: nothing is initialised or copied."""
        bilm = empty_bilm(self.config, self.vocabulary)
        bilm.load_state_dict(dict(self.tensors), assign=True)
        return bilm.eval()


def _with_forget_gate(bias: Tensor, to_add: float) -> Tensor:
    i, f, g, o = bias.chunk(4)
    return torch.cat([i, f + to_add, g, o])


class _Unfilled(TorchFunctionMode):
    """First values are for tensors that have any. PyTorch would import its compiler (0.8 s) to draw them on "meta"."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func is nn.init.normal_:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def empty_bilm(config: BiLMConfig, vocabulary: Vocabulary | None = None) -> BiLM:
    """A biLM without memory behind its tensors."""
    with torch.device("meta"), _Unfilled():
        return BiLM(config, vocabulary)


def expected_shapes(config: BiLMConfig, *, where: str) -> dict[str, tuple[int, ...]]:
    """Name and shape of each tensor of a model; `where` (a file) begins the message of a config beyond all bounds."""
    check_sizes(config, where=where)
    return {name: tuple(tensor.shape) for name, tensor in empty_bilm(config).state_dict().items()}


def check_sizes(config: BiLMConfig, *, where: str) -> None:
    """Refuse sizes that no model has, before anything is made of them."""
    counts = {"lstm.n_layers": config.lstm.n_layers, "n_highway": config.n_highway}
    sizes = {"lstm.dim": config.lstm.dim, "token_dim": config.token_dim}
    words = {}
    if config.characters is not None:
        counts["the number of characters.filters"] = len(config.characters.filters)
        sizes["a number in characters.filters"] = max(max(pair) for pair in config.characters.filters)
        for name in ("dim", "n_characters", "max_characters_per_token"):
            sizes[f"characters.{name}"] = getattr(config.characters, name)
    if config.words is not None:
        words["words.n_words"], sizes["words.dim"] = config.words.n_words, config.words.dim
    if config.softmax is not None:
        words["softmax.n_words"] = config.softmax.n_words
    problems = [
        f"{name} is more than {bound:,}"
        for named, bound in ((counts, MAX_LAYERS), (sizes, MAX_SIZE), (words, MAX_WORDS))
        for name, size in named.items()
        if size > bound
    ]
    if problems:
        raise ShapeMismatch(all_at_once(problems, where), hint="no model is of this size: fetch or copy it again")


def check_shapes(
    found: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, tuple[int, ...]],
    *,
    where: str,
    hint: str,
    exactly: bool = False,
) -> None:
    """Name every tensor that is missing or of another shape, or (`exactly`) not of this model, in one error."""
    missing = [f"{name} is missing, expected {list(shape)}" for name, shape in expected.items() if name not in found]
    wrong = [
        f"{name} is {list(found[name])}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    extra = [f"{name} is not part of this model" for name in found if exactly and name not in expected]
    if missing or wrong or extra:
        kind = MissingTensor if missing else ShapeMismatch
        raise kind(all_at_once(missing + wrong + extra, where), hint=hint)


def check_finite(tensors: Iterable[tuple[str, Tensor]], *, where: str) -> None:
    """Refuse weights that hold NaN or infinity."""
    bad = dict.fromkeys(name for name, tensor in tensors if tensor.numel() and not _is_finite(tensor))
    if bad:
        problems = [f"{name} holds NaN or infinity" for name in bad]
        raise WeightsError(all_at_once(problems, where), hint="the file is damaged or its training diverged")


def _is_finite(tensor: Tensor) -> bool:
    # The extremes carry NaN along, and need no second tensor of this size.
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) & torch.isfinite(high))
