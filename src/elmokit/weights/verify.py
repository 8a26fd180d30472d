"""Whether a written model is the one it was written from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from ..errors import WeightsError, all_at_once
from .bundle import WeightBundle
from .load import read_weights

SENTENCES = (("The", "river", "bank", "flooded", "."), ("Übermäßig", "naïve", "数"), ("a",))


def verify_copy(bundle: WeightBundle, written: Path) -> str:
    """Read `written` again and compare every tensor bit for bit, and vectors; returns what was compared."""
    copy = read_weights(written)
    held = (bundle if copy.config.softmax else bundle.without_softmax()).with_forget_bias(copy.config.lstm.forget_bias)
    problems = [] if copy.config == held.config else ["the config is another"]
    problems += [
        f"{name} differs" for name, tensor in held.tensors.items() if not _equal(tensor, copy.tensors.get(name))
    ]
    if problems:
        raise WeightsError(all_at_once(problems, str(written)), hint="convert again; if it persists, report it")
    tensors, sentences = f"verified: {len(held.tensors)} tensors equal bit for bit", _sentences(held)
    if not sentences:
        return f"{tensors}; vectors were not compared: the model reads words and has no vocabulary"
    largest = _largest_difference(held, copy, sentences)
    if largest > 0:
        raise WeightsError(f"{written}: vectors differ by {largest:.3g}", hint="convert again")
    return f"{tensors}, vectors of {len(sentences)} sentences equal"


def _equal(tensor: torch.Tensor, other: torch.Tensor | None) -> bool:
    return other is not None and torch.equal(tensor, other)


@torch.inference_mode()
def _largest_difference(bundle: WeightBundle, copy: WeightBundle, sentences: Sequence[Sequence[str]]) -> float:
    ours, theirs = bundle.build(), copy.build()
    batch = ours.encode(sentences)
    return float((ours(batch).layers - theirs(batch).layers).abs().max())


def _sentences(bundle: WeightBundle) -> Sequence[Sequence[str]]:
    """Sentences that the model can read: of its own words where it reads words."""
    if bundle.config.words is None:
        return SENTENCES
    words = bundle.vocabulary.words if bundle.vocabulary else ()
    return [sentence for sentence in (words[:7], words[3:5]) if sentence]
