"""Loaded checkpoints give the oracle's vectors: every shape, through every format, from every start."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import elmokit
from elmokit import BiLM, BiLMState, Embedder
from elmokit.weights.formats import FORMATS

from reference.checkpoints import SENTENCES, SHAPES, Case, random_checkpoint, write_checkpoint
from reference.comparing import run_all
from reference.numpy_bilm import Start

CASES = {case.id: case for case in SHAPES}
ROWS = 2
STARTS: tuple[Start, ...] = ("zero", "settled", "carry")
FLOAT64, FLOAT32 = 1e-10, 3e-5
"""Largest error: in float64 absolute, in float32 by a layer's spread (its largest number less its smallest)."""


@cache
def expected(name: str, start: Start) -> list[Any]:
    """An odd seed: cells and projections are clipped."""
    return run_all(random_checkpoint(CASES[name], 1), CASES[name], start=start, batch_size=ROWS).layers


def layers_of(bilm: BiLM, batch: Sequence[Sequence[str]], state: BiLMState) -> tuple[list[Any], BiLMState]:
    with torch.inference_mode():
        output = bilm(bilm.encode(batch), state)
    return [output.layers[:, i, : len(sentence)].numpy() for i, sentence in enumerate(batch)], output.state


def run(bilm: BiLM, start: Start) -> list[Any]:
    if start != "carry":
        return layers_of(bilm, SENTENCES, bilm.start(start, len(SENTENCES)))[0]
    state, found = bilm.start("zero", ROWS), []
    for first in range(0, len(SENTENCES), ROWS):
        batch = SENTENCES[first : first + ROWS]
        layers, end = layers_of(bilm, batch, state.rows(len(batch)))
        state = end.beside(state.behind(len(batch)))
        found += layers
    return found


def embedded(bilm: BiLM, start: Start, precision: Any) -> list[Any]:
    embedder = Embedder(bilm, state=start, precision=precision, batch_size=ROWS, device="cpu")
    return [vectors.layers for vectors in embedder.embed(SENTENCES)]


def errors(found: list[Any], name: str, start: Start) -> tuple[Any, Any]:
    """Largest error and spread of each layer, over all sentences."""
    mine, theirs = (np.concatenate(layers, axis=1) for layers in (found, expected(name, start)))
    return np.abs(mine - theirs).max(axis=(1, 2)), np.ptp(theirs, axis=(1, 2))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_loaded_vectors_are_the_oracles(case: Case, format: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "made", case, seed=1)
    elmokit.write_weights(elmokit.read_weights(tmp_path / "made"), tmp_path / "copy", format=format)
    bilm = elmokit.load_bilm(tmp_path / "copy")
    for start in STARTS:
        for found in (run(bilm, start), embedded(bilm, start, "float32")):
            largest, spread = errors(found, case.id, start)
            assert (largest <= FLOAT32 * spread).all(), (start, largest / spread)
    bilm.double()
    for start in STARTS:
        for found in (run(bilm, start), embedded(bilm, start, "float64")):
            largest, _ = errors(found, case.id, start)
            assert (largest <= FLOAT64).all(), (start, largest)


def test_there_are_shapes_enough_and_the_starts_differ() -> None:
    assert len(SHAPES) >= 20
    tops = [np.concatenate(expected("published", start), axis=1)[-1] for start in STARTS]
    assert min(np.abs(tops[0] - tops[1]).max(), np.abs(tops[1] - tops[2]).max()) > 0.01
