"""A small text with something to learn, and settings that train on it within a second or two."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

from elmokit.model.config import BiLMConfig
from elmokit.pretraining.settings import (
    BatchSettings,
    CorpusSettings,
    ObjectiveSettings,
    OptimizerSettings,
    PretrainSettings,
    ScheduleSettings,
)
from elmokit.text.config import TextConfig

NOUNS, VERBS = ("cat", "dog", "bird", "river", "judge"), ("sees", "finds", "leaves", "hears")


def write_text(path: Path, *, n_sentences: int = 400, seed: int = 0) -> Path:
    """`the NOUN VERB the NOUN .` in documents of ten."""
    chance = random.Random(seed)
    lines = []
    for i in range(n_sentences):
        lines.append(f"the {chance.choice(NOUNS)} {chance.choice(VERBS)} the {chance.choice(NOUNS)} .")
        if i % 10 == 9:
            lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tiny_settings(text: Path, *, steps: int = 12, evaluate_every: int = 4, **changes: object) -> PretrainSettings:
    """Twelve steps of the tiny model; `changes` are of the settings themselves."""
    settings = PretrainSettings(
        bilm=dataclasses.replace(BiLMConfig.tiny(), state="zero", text=TextConfig(tokenizer="whitespace")),
        corpus=CorpusSettings(paths=(str(text),), valid_share=0.1, workers=1),
        objective=ObjectiveSettings(softmax="full"),
        batch=BatchSettings(rows=8, steps=10),
        optimizer=OptimizerSettings(learning_rate=0.01, clip_norm=1.0),
        schedule=ScheduleSettings(steps=steps, evaluate_every=evaluate_every),
        device="cpu",
        precision="float32",
    )
    return dataclasses.replace(settings, **changes)  # type: ignore[arg-type]
