"""Views of a sentence's vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from elmokit import SentenceVectors
from elmokit.errors import SettingsError

LAYERS = np.random.default_rng(0).normal(size=(3, 4, 6)).astype(np.float32)
FULL = SentenceVectors(("a", "b", "c", "d"), LAYERS)
EMPTY = SentenceVectors((), LAYERS[:, :0])
BACKWARD = SentenceVectors(("a", "b", "c", "d"), LAYERS, directions=("backward",))


def test_views_of_all_tokens() -> None:
    assert len(FULL) == 4
    np.testing.assert_array_equal(FULL.top(), LAYERS[2])
    np.testing.assert_array_equal(FULL.average(), LAYERS.mean(axis=0))
    expected = 2.0 * (0.5 * LAYERS[0] + 0.25 * LAYERS[1] - LAYERS[2])
    np.testing.assert_allclose(FULL.mix([0.5, 0.25, -1.0], gamma=2.0), expected, atol=1e-6)


@pytest.mark.parametrize("number", [0, 1, 2, -1, -3])
def test_a_layer_and_its_halves(number: int) -> None:
    np.testing.assert_array_equal(FULL.layer(number), LAYERS[number])
    np.testing.assert_array_equal(FULL.layer(number, direction="forward"), LAYERS[number, :, :3])
    np.testing.assert_array_equal(FULL.layer(number, direction="backward"), LAYERS[number, :, 3:])


def test_a_model_of_one_direction_has_no_other() -> None:
    np.testing.assert_array_equal(BACKWARD.layer(1, direction="backward"), LAYERS[1])
    np.testing.assert_array_equal(BACKWARD.layer(1), LAYERS[1])
    with pytest.raises(SettingsError, match="this model has backward, no 'forward'"):
        BACKWARD.layer(1, direction="forward")


def test_pooled() -> None:
    expected: dict[Any, Any] = {
        "mean": LAYERS.mean(axis=1),
        "max": LAYERS.max(axis=1),
        "first": LAYERS[:, 0],
        "last": LAYERS[:, -1],
    }
    for how, vectors in expected.items():
        np.testing.assert_array_equal(FULL.pooled(how), vectors)
    np.testing.assert_array_equal(FULL.pooled(), expected["mean"])


@pytest.mark.parametrize("how", ["mean", "max", "first", "last"])
def test_an_empty_sentence_pools_to_zeros(how: Any) -> None:
    pooled = EMPTY.pooled(how)
    assert pooled.shape == (3, 6) and pooled.dtype == np.float32 and not pooled.any()


def test_an_empty_sentence_has_every_view() -> None:
    assert len(EMPTY) == 0
    for view in (EMPTY.top(), EMPTY.average(), EMPTY.mix([1, 2, 3]), EMPTY.layer(1)):
        assert view.shape == (0, 6) and view.dtype == np.float32
    assert EMPTY.layer(0, direction="backward").shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_views_keep_the_precision(dtype: Any) -> None:
    vectors = SentenceVectors(FULL.tokens, LAYERS.astype(dtype))
    views = vectors.top(), vectors.average(), vectors.mix([0.2, 0.5, 0.3], gamma=0.7), vectors.pooled()
    assert {view.dtype for view in views} == {np.dtype(dtype)}


def test_wrong_questions_are_errors() -> None:
    with pytest.raises(SettingsError, match=r"3 layers need as many weights, found \[1.0, 2.0\]"):
        FULL.mix([1.0, 2.0])
    for number in (3, -4):
        with pytest.raises(SettingsError, match=f"layers are 0 to 2: {number}"):
            FULL.layer(number)
    with pytest.raises(SettingsError, match="no 'sideways'"):
        FULL.layer(0, direction="sideways")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="mean, max, first or last, found 'sum'"):
        FULL.pooled("sum")  # type: ignore[arg-type]
