"""What goes into a biLM and comes out: tokens to rows, marks on and off, states, pytrees."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from elmokit import BiLM, BiLMOutput, BiLMState, CharacterBatch
from elmokit.errors import DataError
from elmokit.model.batch import batch_from_ids, with_marks, without_marks
from elmokit.text.characters import character_rows

from oracle_models import BOTH, PUBLISHED, WORDS, bilm_of

SENTENCES = [["the", "bank", "of", "the", "river"], [], ["the"], ["", "<S>", "a"]]


def test_each_distinct_word_is_read_once(tiny: BiLM) -> None:
    batch = tiny.encode(SENTENCES)
    assert batch.characters is not None and batch.words is None
    assert len(batch.characters) == 3 + len({token for sentence in SENTENCES for token in sentence})
    assert not batch.characters[0].any()
    length = batch.characters.shape[1]
    assert batch.characters[1:3].tolist() == character_rows(["<S>", "</S>"], length).tolist()


def test_ids_are_those_of_a_whole_tensor(tiny: BiLM) -> None:
    """As `batch_to_ids` of AllenNLP gives them: a row of zeros where a sentence has no token."""
    ids = tiny.encode(SENTENCES).ids
    assert ids.shape == (4, 5, 24)
    for i, sentence in enumerate(SENTENCES):
        assert ids[i, : len(sentence)].tolist() == character_rows(sentence, 24).tolist()
        assert not ids[i, len(sentence) :].any()


def test_an_empty_token_is_not_padding(tiny: BiLM) -> None:
    assert tiny.encode([[""], []]).mask.tolist() == [[True], [False]]


@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_nothing_is_a_batch(tiny: BiLM, sentences: list[list[str]]) -> None:
    batch = tiny.encode(sentences)
    assert batch.index.shape == (len(sentences), 0)
    assert tiny(batch).layers.shape == (3, len(sentences), 0, 32)


def test_words_are_rows_behind_the_padding_row() -> None:
    bilm = bilm_of(WORDS)
    batch = bilm.encode([["river", "nowhere", "the"]])
    assert bilm.vocabulary is not None and batch.characters is None and batch.words is not None
    ids = [bilm.vocabulary.ids([word])[0] for word in ("<S>", "</S>", "river", "<UNK>", "the")]
    assert batch.words.tolist() == [0, *(i + 1 for i in ids)]
    with pytest.raises(DataError, match="reads words, not characters"):
        _ = batch.ids


def test_a_model_of_both_gets_both() -> None:
    batch = bilm_of(BOTH).encode([["river", "nowhere"]])
    assert batch.characters is not None and batch.words is not None
    assert len(batch.characters) == len(batch.words)


def test_a_text_is_no_sentence(tiny: BiLM) -> None:
    with pytest.raises(DataError, match="sentence 1 is a text, not a list of tokens: 'the river'"):
        tiny.encode([["fine"], "the river"])


def test_a_model_of_words_without_its_words_says_so() -> None:
    bilm = bilm_of(WORDS)
    bilm.vocabulary = None
    with pytest.raises(DataError, match="has no vocabulary") as error:
        bilm.encode([["a"]])
    assert "vocab.txt" in error.value.hint


def test_marks_stand_around_each_sentence_but_an_empty_one() -> None:
    index = torch.tensor([[5, 6, 7], [5, 0, 0], [0, 0, 0]])
    assert with_marks(index).tolist() == [[1, 5, 6, 7, 2], [1, 5, 2, 0, 0], [0, 0, 0, 0, 0]]


def test_marks_go_as_they_came() -> None:
    marked = with_marks(torch.tensor([[5, 6, 7], [5, 0, 0], [0, 0, 0]]))
    layers, mask = without_marks(marked[None, :, :, None].double(), marked != 0)
    assert layers[0, :, :, 0].tolist() == [[5, 6, 7], [5, 0, 0], [0, 0, 0]]
    assert mask.tolist() == [[True, True, True], [True, False, False], [False, False, False]]


def test_ids_of_any_integer_type_are_a_batch() -> None:
    rows = torch.from_numpy(character_rows(["a", "b", "a"], 6)).int()
    ids = torch.zeros(2, 2, 6, dtype=torch.int32)
    ids[0], ids[1, 0] = rows[:2], rows[2]
    batch = batch_from_ids(ids)
    assert torch.equal(batch.ids, ids)
    assert batch.mask.tolist() == [[True, True], [True, False]]


def test_ids_of_nothing_are_a_batch() -> None:
    for shape in ((0, 0, 6), (2, 0, 6), (0, 3, 6)):
        assert batch_from_ids(torch.zeros(shape, dtype=torch.int64)).mask.shape == shape[:2]


def a_state(n_rows: int) -> BiLMState:
    cell = torch.arange(2 * 2 * n_rows * 3, dtype=torch.float64).reshape(2, 2, n_rows, 3) + 1
    return BiLMState(cell, -cell[..., :2])


def test_rows_of_a_state_grow_from_zero() -> None:
    state = a_state(2)
    grown = state.rows(4)
    assert grown.n_rows == 4
    assert torch.equal(grown.cell[:, :, :2], state.cell) and not grown.cell[:, :, 2:].any()
    assert torch.equal(grown.hidden[:, :, :2], state.hidden) and not grown.hidden[:, :, 2:].any()
    assert torch.equal(state.rows(1).cell, state.cell[:, :, :1])


@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_a_state_that_is_cut_is_whole_again_side_by_side(n_rows: int) -> None:
    state = a_state(3)
    first, others = state.rows(n_rows), state.behind(n_rows)
    assert (first.n_rows, others.n_rows) == (n_rows, 3 - n_rows)
    again = first.beside(others)
    assert torch.equal(again.cell, state.cell) and torch.equal(again.hidden, state.hidden)


def test_first_rows_that_ran_stand_before_those_that_did_not() -> None:
    state, end = a_state(3), a_state(1)
    found = end.beside(state.behind(1))
    assert torch.equal(found.cell[:, :, :1], end.cell) and torch.equal(found.cell[:, :, 1:], state.cell[:, :, 1:])
    assert torch.equal(found.hidden[:, :, 1:], state.hidden[:, :, 1:])


def test_no_rows_are_behind_all_rows() -> None:
    assert a_state(2).behind(5).n_rows == 0


def test_one_row_can_be_many() -> None:
    expanded = a_state(1).expand(3)
    assert expanded.n_rows == 3
    assert torch.equal(expanded.cell[:, :, 0], expanded.cell[:, :, 2])


@pytest.mark.parametrize("case", [PUBLISHED, WORDS, BOTH], ids=str)
def test_pytorch_sees_through_batches_and_outputs(case: object) -> None:
    bilm = bilm_of(case)  # type: ignore[arg-type]
    batch = bilm.encode([["the", "river"], ["a"]])
    output = bilm(batch)
    for value, kind in ((batch, CharacterBatch), (output, BiLMOutput), (output.state, BiLMState)):
        leaves, spec = pytree.tree_flatten(value)
        again = pytree.tree_unflatten(leaves, spec)
        assert type(again) is kind
        assert all(x is y for x, y in zip(pytree.tree_leaves(again), leaves, strict=True))
        assert sum(isinstance(leaf, torch.Tensor) for leaf in leaves) >= 2
    halved = pytree.tree_map_only(torch.Tensor, lambda x: x / 2 if x.is_floating_point() else x, output)
    assert torch.equal(halved.layers, output.layers / 2)


def test_batches_move_and_can_be_pickled() -> None:
    batch = bilm_of(WORDS).encode([["the", "river"]])
    moved, again = batch.to("meta"), pickle.loads(pickle.dumps(batch))
    assert moved.characters is None and moved.words is not None and moved.index.device.type == "meta"
    assert torch.equal(again.index, batch.index) and again.characters is None


def test_a_large_batch_of_repeated_words_is_exact(tiny: BiLM) -> None:
    sentences = [[f"w{i * j % 97}" for j in range(i % 50)] for i in range(200)]
    ids = tiny.encode(sentences).ids.numpy()
    for i, sentence in enumerate(sentences):
        assert np.array_equal(ids[i, : len(sentence)], character_rows(sentence, 24))
