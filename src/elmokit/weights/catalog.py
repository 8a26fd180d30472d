"""Models by name: those inside the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..model.bilm import BiLM
from ..model.config import BiLMConfig
from .bundle import Provenance, WeightBundle


@dataclass(frozen=True, kw_only=True)
class BundledModel:
    """A model that comes with the package."""

    description: str
    languages: tuple[str, ...]
    read: Callable[[], WeightBundle]


def random_tiny() -> WeightBundle:
    """The same random weights every time: for trying commands and for tests, not for use."""
    config = BiLMConfig.tiny()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20180214)
        bilm = BiLM(config)
    provenance = Provenance(format="native", source="random-tiny", notes=("random weights: nothing was learned",))
    return WeightBundle(config=config, tensors=bilm.state_dict(), provenance=provenance)


BUNDLED = {
    "random-tiny": BundledModel(description="random weights, for trying things out", languages=(), read=random_tiny),
}
