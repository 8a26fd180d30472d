"""The oracle is tested against what knows: numbers worked out by hand, torch in float64, and the published vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from . import numpy_bilm as bilm
from .checkpoints import SENTENCES, SHAPES, UNPUBLISHED, random_checkpoint, random_softmax, vocabulary, vocabulary_ids
from .comparing import largest_difference, read_hdf5, run_all
from .numpy_bilm import Array, Shape, State
from .shared import ABSENT, oracles

CASES = {case.id: case for case in (*SHAPES, *UNPUBLISHED)}
PUBLISHED = CASES["published"]
WORDS = CASES["words"]


# --- characters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "row"),
    [
        ("th", [258, 116, 104, 259, 260]),
        (chr(256) + "t", [258, 196, 128, 116, 259]),
        (chr(256) * 2, [258, 196, 128, 196, 259]),
        ("", [258, 259, 260, 260, 260]),
        ("<S>", [258, 256, 259, 260, 260]),
        ("</S>", [258, 257, 259, 260, 260]),
        ("<s>", [258, 60, 115, 62, 259]),
        ("a\ud800b", [258, 97, 98, 259, 260]),
        ("\x00", [258, 0, 259, 260, 260]),
    ],
)
def test_character_row(token: str, row: list[int]) -> None:
    assert bilm.character_ids(token, 5, shift=0) == row
    assert bilm.character_ids(token, 5) == [number + 1 for number in row]


def test_truncation_counts_bytes() -> None:
    row = bilm.character_ids("ü" * 30, shift=0)
    assert row == [258, *[195, 188] * 24, 259]
    assert bilm.character_ids("x" + "ü" * 30, shift=0)[-2:] == [195, 259]


def test_sentence_rows_stand_between_the_marks() -> None:
    ids = bilm.sentence_ids(["a"], 4)
    assert ids.tolist() == [[259, 257, 260, 261], [259, 98, 260, 261], [259, 258, 260, 261]]


# --- token vectors ---------------------------------------------------------------------------------------------------


def test_convolution_equals_torch_and_einsum() -> None:
    rng = np.random.default_rng(0)
    chars, kernel, bias = rng.normal(size=(5, 9, 4)), rng.normal(size=(1, 3, 4, 6)), rng.normal(size=6)
    found = bilm.convolve(chars, kernel, bias)
    assert found.shape == (5, 7, 6)
    weight = torch.from_numpy(kernel.squeeze(0).transpose(2, 1, 0).copy())
    by_torch = torch.nn.functional.conv1d(
        torch.from_numpy(chars.transpose(0, 2, 1).copy()), weight, torch.from_numpy(bias)
    )
    np.testing.assert_allclose(found, by_torch.numpy().transpose(0, 2, 1), atol=1e-13)
    windows = np.lib.stride_tricks.sliding_window_view(chars, 3, axis=1)
    np.testing.assert_allclose(found, np.einsum("tpdw,wdn->tpn", windows, kernel[0]) + bias, atol=1e-13)


def test_characters_by_hand() -> None:
    """One filter of width 1 that reads the embedding off: the largest of the row's characters, then relu."""
    table = np.full((261, 1), -9.0)
    table[[258, 97, 259, 260], 0] = [-3.0, 2.0, -2.0, 0.5]
    weights = {"char_embed": table, "CNN/W_cnn_0": np.ones((1, 1, 1, 1)), "CNN/b_cnn_0": np.array([0.25])}
    shape = Shape(cell_dim=1, projection_dim=1, filters=((1, 1),), char_dim=1, max_characters=4)
    assert bilm.token_vectors(weights, shape, ["a"])[0, 0] == 2.25
    assert bilm.token_vectors(weights, shape, ["b"])[0, 0] == 0.75, "the padding characters are real input"
    tanh = replace(shape, activation="tanh", max_characters=3)
    assert bilm.token_vectors(weights, tanh, ["b"])[0, 0] == pytest.approx(math.tanh(-1.75))
    assert bilm.token_vectors(weights, replace(shape, max_characters=3), ["b"])[0, 0] == 0.0


def test_highway_gate_multiplies_the_transformed_part() -> None:
    weights = {
        "CNN_high_0/W_carry": np.array([[0.5]]),
        "CNN_high_0/b_carry": np.array([-1.0]),
        "CNN_high_0/W_transform": np.array([[3.0]]),
        "CNN_high_0/b_transform": np.array([1.0]),
    }
    gate = 1 / (1 + math.exp(-(0.5 * 2 - 1.0)))
    found = bilm.highway(weights, 0, np.array([[2.0]]))[0, 0]
    assert found == pytest.approx(gate * 7.0 + (1 - gate) * 2.0, abs=1e-15)


def test_words_come_by_line_and_unknown_ones_as_unk() -> None:
    weights = random_checkpoint(WORDS, 0)
    found = bilm.token_vectors(weights, WORDS.shape, ["<S>", "nowhere", "the"], vocabulary=vocabulary_ids(WORDS))
    np.testing.assert_array_equal(found, weights["embedding"][[0, 2, 3]])


def test_words_stand_before_characters() -> None:
    case = CASES["words-and-chars"]
    weights = random_checkpoint(case, 0)
    chars = replace(case.shape, word_dim=0)
    found = bilm.token_vectors(weights, case.shape, ["the"], vocabulary=vocabulary_ids(case))
    ids = np.array([bilm.character_ids("the")])
    features = np.concatenate([weights["embedding"][3], bilm.char_features(weights, chars, ids)[0]])
    np.testing.assert_allclose(found[0], features @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"], atol=1e-6)


# --- the recurrence --------------------------------------------------------------------------------------------------


def test_one_lstm_step_by_hand() -> None:
    """D = P = 1 with a projection; all four gates differ, both clips bite in the second run."""
    kernel = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    lstm = bilm.Cell(
        kernel=kernel, bias=np.array([0.01, 0.02, 0.03, 0.04]), projection=np.array([[2.0]]), forget_bias=1.0
    )
    x, h, c = 2.0, 0.5, 1.5

    def logistic(z: float) -> float:
        return 1 / (1 + math.exp(-z))

    new_c = logistic(0.3 * x + 0.7 * h + 0.03 + 1) * c + logistic(0.1 * x + 0.5 * h + 0.01) * math.tanh(
        0.2 * x + 0.6 * h + 0.02
    )
    gate = logistic(0.4 * x + 0.8 * h + 0.04)
    before = (np.array([c]), np.array([h]))
    cell, hidden = bilm.lstm_step(lstm, np.array([x]), before)
    assert cell[0] == pytest.approx(new_c, abs=1e-14)
    assert hidden[0] == pytest.approx(gate * math.tanh(new_c) * 2.0, abs=1e-14)

    cell, hidden = bilm.lstm_step(replace(lstm, cell_clip=0.9), np.array([x]), before)
    assert cell[0] == 0.9, "the cell is clipped before it is read"
    assert hidden[0] == pytest.approx(gate * math.tanh(0.9) * 2.0, abs=1e-14)
    assert bilm.lstm_step(replace(lstm, proj_clip=0.2), np.array([x]), before)[1][0] == 0.2
    unprojected = replace(lstm, projection=None, proj_clip=0.2)
    assert bilm.lstm_step(unprojected, np.array([x]), before)[1][0] == pytest.approx(gate * math.tanh(new_c), abs=1e-14)


def torch_lstm(lstm: bilm.Cell, n_inputs: int) -> torch.nn.LSTM:
    """The same layer in torch: gates i, f, g, o, the forget bias in the stored bias, no clips."""
    dim = len(lstm.bias) // 4
    width = 0 if lstm.projection is None else lstm.projection.shape[1]
    module = torch.nn.LSTM(n_inputs, dim, proj_size=width, dtype=torch.float64)
    i, j, f, o = np.split(lstm.kernel, 4, axis=1)
    kernel = np.concatenate([i, f, j, o], axis=1)
    i, j, f, o = np.split(lstm.bias, 4)
    arrays = {"weight_ih_l0": kernel[:n_inputs].T, "weight_hh_l0": kernel[n_inputs:].T}
    arrays |= {"bias_ih_l0": np.concatenate([i, f + lstm.forget_bias, j, o]), "bias_hh_l0": np.zeros(4 * dim)}
    if lstm.projection is not None:
        arrays["weight_hr_l0"] = lstm.projection.T
    module.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in arrays.items()})
    return module


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported")
@pytest.mark.parametrize("name", ["published", "no-projection", "one-layer", "forget-bias-stored"])
def test_layer_equals_torch_with_clips_off(name: str) -> None:
    case = CASES[name]
    shape = replace(case.shape, cell_clip=None, proj_clip=None)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(23, shape.projection_dim))
    cell, hidden = rng.normal(size=shape.cell_dim), rng.normal(size=shape.projection_dim)
    lstm = bilm.lstm_cell(random_checkpoint(case, 1), shape, "forward", layer=0)
    found, (last_cell, last_hidden) = bilm.run_layer(lstm, x, (cell, hidden))
    with torch.no_grad():
        start = (torch.from_numpy(hidden)[None], torch.from_numpy(cell)[None])
        by_torch, (torch_hidden, torch_cell) = torch_lstm(lstm, shape.projection_dim)(torch.from_numpy(x), start)
    np.testing.assert_allclose(found, by_torch.numpy(), atol=1e-12)
    np.testing.assert_allclose(last_cell, torch_cell[0].numpy(), atol=1e-12)
    np.testing.assert_allclose(last_hidden, torch_hidden[0].numpy(), atol=1e-12)


def test_residual_is_added_after_the_state_is_stored() -> None:
    shape = CASES["three-layers"].shape
    weights = random_checkpoint(shape, 0)
    x = np.random.default_rng(0).normal(size=(1, shape.projection_dim))
    layers, state = bilm.run_vectors(weights, shape, x)
    width = shape.projection_dim
    np.testing.assert_array_equal(layers[1, 0, :width], state.hidden[0, 0])
    for layer in (1, 2):
        expected = state.hidden[0, layer] + layers[layer, 0, :width]
        np.testing.assert_array_equal(layers[layer + 1, 0, :width], expected)
    plain, plain_state = bilm.run_vectors(weights, replace(shape, skip=False), x)
    np.testing.assert_array_equal(plain[1:, 0, :width], plain_state.hidden[0])


def test_layer_0_is_the_token_vector_once_for_each_direction() -> None:
    weights = random_checkpoint(PUBLISHED, 0)
    x = bilm.token_vectors(weights, PUBLISHED.shape, SENTENCES[0])
    both = bilm.run_sentence(weights, PUBLISHED.shape, SENTENCES[0]).layers
    one = bilm.run_sentence(weights, replace(PUBLISHED.shape, directions=("backward",)), SENTENCES[0]).layers
    np.testing.assert_allclose(both[0], np.concatenate([x, x], axis=-1), rtol=0, atol=1e-14)
    np.testing.assert_allclose(one[0], x, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(one, both[:, :, PUBLISHED.shape.projection_dim :])


def test_backward_is_forward_on_the_reversed_sentence() -> None:
    weights = random_checkpoint(PUBLISHED, 1)
    swapped = {name.replace("RNN_1", "RNN_0"): value for name, value in weights.items() if "RNN_0" not in name}
    x = bilm.token_vectors(weights, PUBLISHED.shape, ("<S>", *SENTENCES[0], "</S>"))
    backward, after = bilm.run_vectors(weights, replace(PUBLISHED.shape, directions=("backward",)), x)
    forward, mirrored = bilm.run_vectors(swapped, replace(PUBLISHED.shape, directions=("forward",)), x[::-1])
    np.testing.assert_array_equal(backward, forward[:, ::-1])
    np.testing.assert_array_equal(after.hidden, mirrored.hidden)


def test_forward_direction_split_with_carried_state_equals_the_whole() -> None:
    case = CASES["forward"]
    weights = random_checkpoint(case, 1)
    x = np.random.default_rng(0).normal(size=(9, case.shape.projection_dim))
    whole, end = bilm.run_vectors(weights, case.shape, x)
    left, state = bilm.run_vectors(weights, case.shape, x[:4])
    right, split_end = bilm.run_vectors(weights, case.shape, x[4:], state=state)
    np.testing.assert_array_equal(whole, np.concatenate([left, right], axis=1))
    np.testing.assert_array_equal(end.cell, split_end.cell)


# --- starts ----------------------------------------------------------------------------------------------------------


def test_settled_start_runs_the_neutral_sentence_three_times() -> None:
    weights, shape = random_checkpoint(PUBLISHED, 0), PUBLISHED.shape
    state: State | None = None
    for _ in range(3):
        state = bilm.run_sentence(weights, shape, ["."], state=state).state
    found = run_all(weights, PUBLISHED, start="settled")
    for tokens, layers in zip(SENTENCES, found.layers, strict=True):
        np.testing.assert_array_equal(layers, bilm.run_sentence(weights, shape, tokens, state=state).layers)
    np.testing.assert_array_equal(found.layers[-1], found.layers[-2])


def test_carry_goes_on_row_by_row() -> None:
    """Seven sentences in batches of three: row 0 meets sentences 0, 3, 6; sentence 3 is empty and changes nothing."""
    weights, shape = random_checkpoint(PUBLISHED, 0), PUBLISHED.shape
    found = run_all(weights, PUBLISHED, start="carry", batch_size=3)
    for row, numbers in enumerate([(0, 6), (1, 4), (2, 5)]):
        state: State | None = None
        for number in numbers:
            run = bilm.run_sentence(weights, shape, SENTENCES[number], state=state)
            state = run.state
            np.testing.assert_array_equal(found.layers[number], run.layers)
        assert state is not None
        np.testing.assert_array_equal(found.states[row].cell, state.cell)
    assert found.layers[3].shape == (3, 0, 12)


def test_carry_goes_on_from_given_states_and_leaves_rows_beyond_the_batch() -> None:
    weights, shape = random_checkpoint(PUBLISHED, 0), PUBLISHED.shape
    whole = run_all(weights, PUBLISHED, start="carry", batch_size=3)
    first = bilm.embed_sentences(weights, shape, SENTENCES[:3], start="carry", batch_size=3)
    rest = bilm.embed_sentences(weights, shape, SENTENCES[3:], start="carry", batch_size=3, states=first.states)
    assert largest_difference(whole.layers[3:], rest.layers) == 0.0
    short = bilm.embed_sentences(weights, shape, SENTENCES[:1], start="carry", batch_size=1, states=first.states)
    np.testing.assert_array_equal(short.states[2].hidden, first.states[2].hidden)


# --- what stands on top ----------------------------------------------------------------------------------------------


def test_scalar_mix_by_hand() -> None:
    layers = np.array([[[1.0, 2.0]], [[5.0, 6.0]]])
    (found,) = bilm.scalar_mix([layers], [math.log(3.0), 0.0], gamma=2.0)
    np.testing.assert_allclose(found, [[2 * (0.75 * 1 + 0.25 * 5), 2 * (0.75 * 2 + 0.25 * 6)]], atol=1e-14)


def test_batch_norm_looks_at_all_sentences_and_token_norm_at_one_token() -> None:
    rng = np.random.default_rng(0)
    batch = [rng.normal(2.0, 3.0, size=(3, n, 4)) for n in (5, 2, 1)]
    joint = np.concatenate(bilm.layer_normalise(batch, "batch"), axis=1)
    np.testing.assert_allclose(joint.mean((1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose((joint**2).mean((1, 2)), 1, atol=1e-11)
    for x, normal in zip(batch, bilm.layer_normalise(batch, "token"), strict=True):
        by_torch = torch.nn.functional.layer_norm(torch.from_numpy(x), (4,), eps=1e-12)
        np.testing.assert_allclose(normal, by_torch.numpy(), atol=1e-11)
    mixed = bilm.scalar_mix(batch, [0.0, 0.0, 0.0], layer_norm="batch")
    np.testing.assert_allclose(np.concatenate(mixed), joint.mean(0), atol=1e-12)


def test_masked_batch_norm_as_published_equals_the_joint_one() -> None:
    """The published formula, on a padded batch with rubbish in the padding."""
    rng = np.random.default_rng(1)
    batch, lengths = rng.normal(size=(2, 4, 3)), (4, 2)
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]])[:, :, None]
    n = mask.sum() * 3
    mean = (batch * mask).sum() / n
    variance = (((batch * mask - mean) * mask) ** 2).sum() / n
    expected = (batch - mean) / np.sqrt(variance + 1e-12)
    found = bilm.layer_normalise([x[None, :length] for x, length in zip(batch, lengths, strict=True)], "batch")
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(found[row][0], expected[row, :length], atol=1e-12)


def test_log_probabilities_by_hand() -> None:
    case = CASES["one-layer"]
    ids = {token: line for line, token in enumerate(("<S>", "</S>", "<UNK>", "a", "b"))}
    weights = random_checkpoint(case, 0) | random_softmax(case, len(ids))
    tokens = ("a", "b")
    found = bilm.log_probabilities(weights, case.shape, tokens)
    top = bilm.run_sentence(weights, case.shape, tokens).marked[-1]
    w, b = weights["softmax/W"].astype(np.float64), weights["softmax/b"].astype(np.float64)
    picked = bilm.token_log_probabilities(found, tokens, ids)
    assert picked.forward is not None and picked.backward is not None
    for k, target in enumerate(("a", "b", "</S>")):
        scores = w @ top[k, :6] + b
        assert picked.forward[k] == pytest.approx(scores[ids[target]] - math.log(np.exp(scores).sum()), abs=1e-12)
    for k, target in enumerate(("<S>", "a", "b")):
        scores = w @ top[k + 1, 6:] + b
        assert picked.backward[k] == pytest.approx(scores[ids[target]] - math.log(np.exp(scores).sum()), abs=1e-12)


def test_predictions_never_see_what_they_predict() -> None:
    weights = random_checkpoint(PUBLISHED, 0) | random_softmax(PUBLISHED, 7)
    left, right = ("a", "b", "c", "d"), ("a", "b", "X", "d")
    one, two = (bilm.log_probabilities(weights, PUBLISHED.shape, tokens) for tokens in (left, right))
    assert one.forward is not None and one.backward is not None
    assert two.forward is not None and two.backward is not None
    np.testing.assert_array_equal(one.forward[:3], two.forward[:3])
    np.testing.assert_array_equal(one.backward[3:], two.backward[3:])
    assert np.abs(one.forward[3:] - two.forward[3:]).min(axis=1).max() > 0
    assert np.abs(one.backward[:3] - two.backward[:3]).min(axis=1).max() > 0
    np.testing.assert_allclose(np.exp(one.forward).sum(-1), 1, atol=1e-12)
    empty = bilm.log_probabilities(weights, PUBLISHED.shape, ())
    assert empty.forward is not None and empty.forward.shape == (1, 7)


def test_shared_word_embedding_serves_as_softmax() -> None:
    weights = dict(random_checkpoint(WORDS, 0))
    weights["softmax/b"] = random_softmax(WORDS, len(vocabulary(WORDS)))["softmax/b"]
    ids = vocabulary_ids(WORDS)
    shared = bilm.log_probabilities(weights, WORDS.shape, ("the", "of"), vocabulary=ids)
    own = bilm.log_probabilities(
        weights | {"softmax/W": weights["embedding"]}, WORDS.shape, ("the", "of"), vocabulary=ids
    )
    assert shared.forward is not None and own.forward is not None
    np.testing.assert_array_equal(shared.forward, own.forward)


# --- the published vectors -------------------------------------------------------------------------------------------

FIXTURES = {
    "bilm-tf": ("bilm-tf/model", "lm_embeddings_sentences.json"),
    "allennlp": ("allennlp/elmo", "sentences.json"),
}


def published(name: str) -> tuple[Path, Shape, dict[str, Any], list[list[list[str]]]]:
    """Folder, shape, weights, and the sentences as rows of tokens: three rows of ten sentences each."""
    root = oracles()
    if root is None:
        pytest.skip(ABSENT)
    folder = root / FIXTURES[name][0]
    shape = Shape.from_options(json.loads((folder / "options.json").read_text()))
    rows = json.loads((folder / FIXTURES[name][1]).read_text())
    return folder, shape, read_hdf5(folder / "lm_weights.hdf5"), [[text.split() for text in row] for row in rows]


def errors(folder: Path, rows: list[list[list[str]]], layers: list[Array]) -> list[float]:
    """Largest error of the top layer for each row; `layers` go batch by batch, as they were run."""
    found = []
    for row in range(len(rows)):
        expected = read_hdf5(folder / f"lm_embeddings_{row}.hdf5")
        mine = layers[row :: len(rows)]
        tops = [np.concatenate(list(expected[str(number)]), axis=-1) for number in range(len(mine))]
        found.append(largest_difference([layer[-1] for layer in mine], tops))
    return found


@pytest.mark.parametrize("name", FIXTURES)
def test_published_vectors_are_reproduced(name: str, record_property: Callable[[str, object], None]) -> None:
    folder, shape, weights, rows = published(name)
    in_order = [sentence for batch in zip(*rows, strict=True) for sentence in batch]
    run = bilm.embed_sentences(weights, shape, in_order, start="carry", batch_size=len(rows))
    found = errors(folder, rows, run.layers)
    record_property("max_abs_error", found)
    assert max(found) <= 2e-6


def test_published_vectors_need_the_carried_state() -> None:
    """The first sentence of each row is right from zero; the others are far off."""
    folder, shape, weights, rows = published("allennlp")
    in_order = [sentence for batch in zip(*rows, strict=True) for sentence in batch]
    run = bilm.embed_sentences(weights, shape, in_order, start="zero")
    assert max(errors(folder, [row[:1] for row in rows], run.layers[:3])) <= 2e-6
    assert min(errors(folder, rows, run.layers)) > 0.1


def test_published_vectors_need_the_clips() -> None:
    folder, shape, weights, rows = published("allennlp")
    in_order = [sentence for batch in zip(*rows, strict=True) for sentence in batch]
    loose = replace(shape, cell_clip=None, proj_clip=None)
    run = bilm.embed_sentences(weights, loose, in_order, start="carry", batch_size=len(rows))
    assert max(errors(folder, rows, run.layers)) > 0.1


def test_published_token_embeddings_and_the_word_level_path() -> None:
    """The dumped token vectors are layer 0, and a biLM that looks them up says what the one that spells says."""
    folder, shape, weights, rows = published("allennlp")
    lines = (folder / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    dumped = read_hdf5(folder / "elmo_token_embeddings.hdf5")["embedding"]
    assert len(lines) == len(dumped)
    np.testing.assert_allclose(bilm.token_vectors(weights, shape, lines), dumped, rtol=0, atol=2e-6)

    cached = {name: value for name, value in weights.items() if name.startswith("RNN_")} | {"embedding": dumped}
    words = replace(shape, filters=(), char_dim=0, n_highway=0, word_dim=shape.projection_dim)
    ids = {token: line for line, token in enumerate(lines)}
    known = [sentence for row in rows for sentence in row if all(token in ids for token in sentence)]
    assert known
    spelled = bilm.embed_sentences(weights, shape, known).layers
    looked_up = bilm.embed_sentences(cached, words, known, vocabulary=ids).layers
    assert largest_difference(spelled, looked_up) <= 2e-6
