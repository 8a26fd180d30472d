"""A model's shape is read off its tensors, by any name they go under, and most tensors outvote a damaged one."""

from __future__ import annotations

import pytest

from elmokit import MissingTensor, ShapeMismatch, WeightsError
from elmokit.model.config import LSTMConfig
from elmokit.weights import bilm_shape
from elmokit.weights.bilm_shape import lstm_name, standard_names

from oracle_models import CASES, config_of
from reference.checkpoints import SHAPES, Case, random_checkpoint

Shapes = dict[str, tuple[int, ...]]


def shapes_of(case: Case) -> Shapes:
    weights = random_checkpoint(case)
    return {standard: weights[name].shape for standard, name in standard_names(weights, "x").items()}


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_the_shape_of_every_checkpoint(case: Case) -> None:
    """All but what tensors cannot tell, which is as published."""
    found, expected = bilm_shape.config_of(shapes_of(case), "x"), config_of(case)
    lstm, usual = expected.lstm, LSTMConfig()
    for name in ("cell_clip", "proj_clip", "skip"):
        object.__setattr__(lstm, name, getattr(usual, name))
    assert (found.lstm, found.token_dim, found.words) == (lstm, expected.token_dim, expected.words)
    assert (found.projection, found.n_highway, found.directions) == (
        expected.projection,
        expected.n_highway,
        expected.directions,
    )
    if expected.characters is None or found.characters is None:
        assert found.characters is expected.characters
    else:
        assert (found.characters.dim, found.characters.filters) == (
            expected.characters.dim,
            expected.characters.filters,
        )
        assert found.characters.n_characters == case.char_rows + 1


@pytest.mark.parametrize(
    ("name", "standard"),
    [
        ("RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0", lstm_name(1, 1, "W_P_0")),
        ("lm/RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/B", lstm_name(1, 1, "B")),
        ("RNN_0/RNN/LSTMCell/B", lstm_name(0, 0, "B")),
        ("RNN_1/rnn/lstm_cell/kernel", lstm_name(1, 0, "W_0")),
        ("lm/RNN_1/rnn/multi_rnn_cell/cell_1/lstm_cell/projection/kernel", lstm_name(1, 1, "W_P_0")),
        ("rnn/multi_rnn_cell/cell_2/lstm_cell/bias", lstm_name(0, 2, "B")),
        ("rnn/LSTMCell/kernel", lstm_name(0, 0, "W_0")),
        ("char_embed", "char_embed"),
        ("lm/CNN/W_cnn_0", "CNN/W_cnn_0"),
        ("ml/CNN/W_cnn_0", "ml/CNN/W_cnn_0"),
        ("dense/kernel", "dense/kernel"),
        (
            "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/kernel/Adagrad",
            "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/kernel/Adagrad",
        ),
    ],
)
def test_names_are_put_right(name: str, standard: str) -> None:
    assert standard_names([name], "x") == {standard: name}


def test_two_names_of_one_tensor_are_refused() -> None:
    with pytest.raises(WeightsError, match="lm/char_embed and char_embed are the same tensor"):
        standard_names(["char_embed", "lm/char_embed"], "weights.hdf5")


@pytest.mark.parametrize("name", sorted(shapes_of(CASES["published"])))
def test_no_single_tensor_moves_the_shape_of_the_lstm(name: str) -> None:
    """So the damaged tensor is named, and not all the others."""
    shapes = shapes_of(CASES["published"])
    whole = bilm_shape.config_of(shapes, "x")
    for damaged in ((), (7,), tuple(n + 1 for n in shapes[name])):
        found = bilm_shape.config_of(shapes | {name: damaged}, "x")
        assert (found.lstm, found.token_dim, found.n_highway) == (whole.lstm, whole.token_dim, whole.n_highway)


def test_what_is_there_is_told_where_no_model_is() -> None:
    for shapes, said in (
        ({}, "holds no tensors"),
        ({"embedding": (9, 4)}, "word vectors alone"),
        ({"0": (3, 9, 4), "1": (3, 9, 4)}, r"found 2 tensors \(0, 1\)"),
        ({"RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B": (4,)}, "found 1 tensors"),
    ):
        with pytest.raises(MissingTensor, match=said):
            bilm_shape.config_of(shapes, "x")  # type: ignore[arg-type]


def test_shapes_that_make_no_model_are_refused() -> None:
    shapes = shapes_of(CASES["published"])
    without = {name: shape for name, shape in shapes.items() if not name.startswith("CNN/")}
    with pytest.raises(ShapeMismatch, match=r"no biLM has these shapes: .*filters must not be empty"):
        bilm_shape.config_of(without, "x")
