"""Random checkpoints are worth comparing with when files and memory agree and they are neither dead nor chaotic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from .checkpoints import SENTENCES, SHAPES, UNPUBLISHED, Case, options, random_checkpoint, write_checkpoint
from .comparing import largest_difference, read_hdf5, run_all
from .numpy_bilm import Array, Shape, Weights

CASES = {case.id: case for case in (*SHAPES, *UNPUBLISHED)}
PUBLISHED = CASES["published"]
every_case = pytest.mark.parametrize("case", CASES.values(), ids=str)


def test_ids_are_unique_and_enough() -> None:
    assert len(CASES) == len(SHAPES) + len(UNPUBLISHED)
    assert len(SHAPES) >= 24


@every_case
def test_every_case_runs(case: Case) -> None:
    weights = random_checkpoint(case, 1)
    assert all(value.dtype == np.float32 for value in weights.values())
    found = run_all(weights, case, start="carry", batch_size=2)
    width = case.shape.projection_dim * len(case.shape.directions)
    for tokens, layers in zip(SENTENCES, found.layers, strict=True):
        assert layers.shape == (case.shape.n_layers + 1, len(tokens), width)
        assert np.isfinite(layers).all()
        assert not layers.size or layers.std() > 0.01, "dead weights test nothing"


@every_case
def test_every_number_counts_but_the_262nd_row(case: Case) -> None:
    """A dataset that changes nothing could be misread and no comparison would tell."""
    weights = random_checkpoint(case, 0)

    def run(changed: Weights) -> list[Array]:
        return run_all(changed, case, sentences=SENTENCES[2:5]).layers

    before = run(weights)
    for name, value in weights.items():
        after = run(weights | {name: value * 1.1})
        assert largest_difference(before, after) > 1e-5, name
    if case.char_rows == 262:
        table = weights["char_embed"].copy()
        table[261] = 1e6
        assert largest_difference(before, run(weights | {"char_embed": table})) == 0.0


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_files_say_what_the_memory_says(case: Case, tmp_path: Path) -> None:
    options_path, weights_path = write_checkpoint(tmp_path / "made", case, seed=5)
    assert Shape.from_options(json.loads(options_path.read_text())) == case.shape
    weights, read = random_checkpoint(case, 5), read_hdf5(weights_path)
    assert sorted(weights) == sorted(read)
    for name, value in weights.items():
        np.testing.assert_array_equal(value, read[name])
    assert (tmp_path / "made" / "vocab.txt").exists() == bool(case.shape.word_dim)
    assert ("char_cnn" in options(case)) == bool(case.shape.filters)


@pytest.mark.parametrize("seed", [0, 1])
def test_clips_bite_in_the_odd_draws(seed: int) -> None:
    """Each clip alone moves an odd draw; the scale is sane: nothing at all is clipped in an even draw."""
    weights = random_checkpoint(PUBLISHED, seed)
    clipped = run_all(weights, PUBLISHED, start="carry").layers
    shape = PUBLISHED.shape
    for loose in (replace(shape, cell_clip=None), replace(shape, proj_clip=None)):
        moved = largest_difference(clipped, run_all(weights, replace(PUBLISHED, shape=loose), start="carry").layers)
        assert (moved > 0.01) if seed else (moved == 0.0), loose


@every_case
def test_draws_are_not_chaotic(case: Case) -> None:
    """A float32 product must be able to follow: rounding the weights' last bits moves the outputs little."""
    weights = random_checkpoint(case, 1)
    rng = np.random.default_rng(0)
    nudged = {name: value * (1 + 1e-7 * rng.choice([-1, 1], value.shape)) for name, value in weights.items()}
    before, after = (run_all(each, case, start="carry").layers for each in (weights, nudged))
    assert largest_difference(before, after) < 3e-6


@pytest.mark.parametrize(
    ("dim", "projection_dim", "n_parameters"),
    [(1024, 128, 13_593_296), (2048, 256, 28_027_728)],
    ids=["small", "medium"],
)
def test_published_sizes(dim: int, projection_dim: int, n_parameters: int) -> None:
    filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    shape = Shape(cell_dim=dim, projection_dim=projection_dim, filters=filters, char_dim=16, n_highway=1)
    assert sum(value.size for value in random_checkpoint(shape).values()) == n_parameters
