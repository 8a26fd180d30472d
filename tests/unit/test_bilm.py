"""The whole biLM: against the oracle, its directions, marks and states, and the settled start."""

from __future__ import annotations

import copy
import io
import math
import pickle
import subprocess
import sys
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from elmokit import BiLM, BiLMConfig, BiLMState
from elmokit.errors import DataError, SettingsError
from elmokit.model.config import CharCNNConfig, LSTMConfig, SoftmaxConfig, WordsConfig
from elmokit.text.vocabulary import Vocabulary
from elmokit.weights.bundle import empty_bilm

from oracle_models import BOTH, CASES, PUBLISHED, WORDS, bilm_of, checkpoint_of
from reference.checkpoints import SENTENCES, Case, vocabulary_ids
from reference.numpy_bilm import embed_sentences, run_sentence, settled_state

every_case = pytest.mark.parametrize("case", CASES.values(), ids=str)
some_cases = pytest.mark.parametrize("case", [PUBLISHED, WORDS, BOTH, CASES["forward"], CASES["backward"]], ids=str)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tests' own check of signatures: what users see."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def close(found: Tensor, expected: Any, *, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(found.detach().numpy(), np.asarray(expected), rtol=0, atol=atol)


# --- against what knows ----------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("start", ["zero", "settled"])
def test_layers_are_the_oracles(case: Case, start: Any) -> None:
    bilm, weights = bilm_of(case), checkpoint_of(case)
    output = bilm(bilm.encode(SENTENCES), bilm.start(start, len(SENTENCES)))
    expected = embed_sentences(weights, case.shape, SENTENCES, start=start, vocabulary=vocabulary_ids(case))
    assert len(output.layers) == case.shape.n_layers + 1
    for i, layers in enumerate(expected.layers):
        close(output.layers[:, i, : len(SENTENCES[i])], layers)
        assert output.mask[i].sum() == len(SENTENCES[i])


@some_cases
def test_states_are_the_oracles(case: Case) -> None:
    bilm, weights = bilm_of(case), checkpoint_of(case)
    output = bilm(bilm.encode(SENTENCES))
    for i, tokens in enumerate(SENTENCES):
        state = run_sentence(weights, case.shape, tokens, vocabulary=vocabulary_ids(case)).state
        close(output.state.cell[:, :, i], state.cell)
        close(output.state.hidden[:, :, i], state.hidden)


@some_cases
def test_float32_follows_the_oracle(case: Case) -> None:
    bilm, weights = bilm_of(case, dtype=torch.float32), checkpoint_of(case)
    output = bilm(bilm.encode(SENTENCES))
    expected = embed_sentences(weights, case.shape, SENTENCES, vocabulary=vocabulary_ids(case))
    assert output.layers.dtype == torch.float32
    for i, layers in enumerate(expected.layers):
        close(output.layers[:, i, : len(SENTENCES[i])], layers, atol=3e-6)


@pytest.mark.parametrize(
    ("preset", "n_parameters"), [("small", 13_593_296), ("medium", 28_027_728), ("original", 93_600_848)]
)
def test_published_sizes(preset: str, n_parameters: int) -> None:
    bilm = empty_bilm(getattr(BiLMConfig, preset)())
    assert bilm.n_parameters() == n_parameters
    assert bilm.device.type == "meta"


def test_the_published_softmax_has_the_published_size() -> None:
    with_softmax = empty_bilm(BiLMConfig(softmax=SoftmaxConfig(n_words=793_471)))
    assert with_softmax.n_parameters() - 93_600_848 == 407_050_623


# --- what stands where -----------------------------------------------------------------------------------------------


def test_layer_0_is_the_token_layer_twice() -> None:
    bilm = bilm_of(PUBLISHED)
    batch = bilm.encode([["the", "river", "the"]])
    first = bilm(batch).layers[0, 0]
    assert torch.equal(first[:, :6], first[:, 6:])
    assert torch.equal(first[0], first[2])
    assert torch.equal(first[:, :6], bilm.token_layer(batch)[batch.index[0]])


def test_the_forward_direction_is_the_first_half() -> None:
    """A change of the last token reaches no earlier one forward, and all of them backward."""
    bilm = bilm_of(PUBLISHED)
    one, other = (bilm(bilm.encode([["the", "river", last]])).layers[:, 0, :2] for last in ("bank", "end"))
    assert torch.equal(one[:, :, :6], other[:, :, :6])
    assert (one[1:, :, 6:] != other[1:, :, 6:]).any(dim=2).all()


@pytest.mark.parametrize("case", [PUBLISHED, WORDS, BOTH], ids=str)
def test_directions_alone_are_the_halves(case: Case) -> None:
    bilm = bilm_of(case)
    batch, half = bilm.encode(SENTENCES), case.shape.projection_dim
    state = bilm(batch).state
    both = bilm(batch, state)
    for i, direction in enumerate(("forward", "backward")):
        own = BiLMState(state.cell[i : i + 1], state.hidden[i : i + 1])
        alone = bilm(batch, own, directions=[direction])
        torch.testing.assert_close(alone.layers, both.layers[..., i * half : (i + 1) * half], rtol=0, atol=1e-14)
        torch.testing.assert_close(alone.state.cell[0], both.state.cell[i], rtol=0, atol=1e-14)


def test_a_model_of_one_direction_is_half_of_a_model_of_two() -> None:
    both, alone = bilm_of(PUBLISHED), bilm_of(CASES["backward"])
    alone.load_state_dict({name: both.state_dict()[name] for name in alone.state_dict()})
    batch = both.encode(SENTENCES)
    torch.testing.assert_close(alone(batch).layers, both(batch).layers[..., 6:], rtol=0, atol=1e-14)


def test_padding_is_zero() -> None:
    bilm = bilm_of(PUBLISHED)
    output = bilm(bilm.encode(SENTENCES))
    assert not output.layers[:, ~output.mask].any()
    kept = bilm(bilm.encode(SENTENCES), marks="keep")
    assert not kept.layers[:, ~kept.mask].any()
    assert kept.layers[1:, kept.mask].any(dim=-1).all()


# --- sentence marks --------------------------------------------------------------------------------------------------


@some_cases
def test_keep_is_drop_with_the_marks(case: Case) -> None:
    bilm = bilm_of(case)
    batch = bilm.encode(SENTENCES)
    dropped, kept = bilm(batch), bilm(batch, marks="keep")
    for i, tokens in enumerate(SENTENCES):
        n = len(tokens)
        assert torch.equal(kept.layers[:, i, 1 : n + 1], dropped.layers[:, i, :n])
        assert kept.mask[i].sum() == (n + 2 if n else 0)
        marked = run_sentence(checkpoint_of(case), case.shape, tokens, vocabulary=vocabulary_ids(case)).marked
        close(kept.layers[:, i, : len(marked[0])], marked)
    torch.testing.assert_close(kept.state.cell, dropped.state.cell, rtol=0, atol=0)


@some_cases
def test_none_with_marks_as_tokens_is_keep(case: Case) -> None:
    bilm = bilm_of(case)
    kept = bilm(bilm.encode([["the", "river"], ["a"]]), marks="keep")
    none = bilm(bilm.encode([["<S>", "the", "river", "</S>"], ["<S>", "a", "</S>"]]), marks="none")
    torch.testing.assert_close(none.layers, kept.layers, rtol=0, atol=1e-14)
    torch.testing.assert_close(none.state.hidden, kept.state.hidden, rtol=0, atol=1e-14)
    assert torch.equal(none.mask, kept.mask)


@pytest.mark.usefixtures("unchecked")
def test_a_wrong_word_for_marks_is_an_error() -> None:
    """It was read as "keep"."""
    bilm = bilm_of(PUBLISHED)
    with pytest.raises(SettingsError, match="marks are one of drop, keep, none, found 'no'"):
        bilm(bilm.encode([["a"]]), marks="no")


# --- ids -------------------------------------------------------------------------------------------------------------


def test_a_tensor_of_ids_is_taken() -> None:
    bilm = bilm_of(PUBLISHED)
    batch = bilm.encode(SENTENCES)
    for ids in (batch.ids, batch.ids.int()):
        for marks in ("drop", "keep", "none"):
            expected, found = bilm(batch, marks=marks), bilm(ids, marks=marks)
            torch.testing.assert_close(found.layers, expected.layers, rtol=0, atol=1e-13)
            assert torch.equal(found.mask, expected.mask)


def test_ids_may_be_padded_further() -> None:
    bilm = bilm_of(PUBLISHED)
    ids = bilm.encode(SENTENCES).ids
    wider = nn.functional.pad(ids, (0, 0, 0, 3))
    n = ids.shape[1]
    torch.testing.assert_close(bilm(wider).layers[:, :, :n], bilm(ids).layers, rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 17), (2, 50), (2, 3, 50, 1)])
def test_ids_of_another_shape_are_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"was given, this model takes whole numbers \(batch, token, 50\)"):
        bilm_of(PUBLISHED)(torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize("case", [WORDS, BOTH], ids=str)
def test_a_model_of_words_takes_no_ids(case: Case) -> None:
    with pytest.raises(DataError, match="takes what encode"):
        bilm_of(case)(torch.zeros(2, 3, 50, dtype=torch.int64))


# --- states ----------------------------------------------------------------------------------------------------------


def test_a_text_cut_in_two_is_the_whole_text_forward() -> None:
    bilm = bilm_of(PUBLISHED)
    tokens = ["<S>", *SENTENCES[0], *SENTENCES[2], "</S>"]
    whole = bilm(bilm.encode([tokens]), marks="none", directions=["forward"])
    for cut in range(len(tokens) + 1):
        first = bilm(bilm.encode([tokens[:cut]]), marks="none", directions=["forward"])
        second = bilm(bilm.encode([tokens[cut:]]), first.state, marks="none", directions=["forward"])
        together = torch.cat([first.layers, second.layers], dim=2)
        torch.testing.assert_close(together, whole.layers, rtol=0, atol=1e-13)
        torch.testing.assert_close(second.state.cell, whole.state.cell, rtol=0, atol=1e-13)


def test_nothing_is_remembered_between_calls() -> None:
    bilm = bilm_of(PUBLISHED)
    batch = bilm.encode(SENTENCES)
    before = bilm(batch)
    bilm(bilm.encode([["quite", "other", "words"]] * 9), bilm.start("settled", 9))
    after = bilm(batch)
    assert torch.equal(before.layers, after.layers) and torch.equal(before.state.cell, after.state.cell)


def test_the_state_that_was_given_is_left_alone() -> None:
    bilm = bilm_of(PUBLISHED)
    batch = bilm.encode(SENTENCES)
    with torch.no_grad():
        state = bilm(batch).state
    kept = copy.deepcopy(state)
    moved = bilm(batch, state)
    assert torch.equal(state.cell, kept.cell) and torch.equal(state.hidden, kept.hidden)
    assert (moved.layers[1:, 0] != bilm(batch).layers[1:, 0]).any()


def test_an_empty_sentence_keeps_its_state() -> None:
    bilm = bilm_of(PUBLISHED)
    state = bilm(bilm.encode([["a"], ["the", "river"]])).state
    for marks in ("drop", "keep", "none"):
        after = bilm(bilm.encode([[], ["a"]]), state, marks=marks).state
        assert torch.equal(after.cell[:, :, 0], state.cell[:, :, 0])
        assert torch.equal(after.hidden[:, :, 0], state.hidden[:, :, 0])


@pytest.mark.parametrize(
    ("n_rows", "directions", "given"), [(1, None, r"\(2, 2, 1\)"), (2, ["backward"], r"\(2, 2, 2\)")]
)
def test_a_state_of_another_shape_is_an_error(n_rows: int, directions: Any, given: str) -> None:
    """One row was broadcast, and `directions=["backward"]` took the forward state of a state of both."""
    bilm = bilm_of(PUBLISHED)
    batch = bilm.encode([["a"], ["b"]])
    with pytest.raises(DataError, match=f"cells of {given[:-2]}, 12\\) was given, expected"):
        bilm(batch, bilm.start("zero", n_rows), directions=directions)


# --- gradients -------------------------------------------------------------------------------------------------------


@every_case
def test_every_weight_learns(case: Case) -> None:
    bilm = bilm_of(case, seed=0)
    bilm(bilm.encode(SENTENCES), marks="keep").layers.square().sum().backward()
    for name, weight in bilm.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name
        assert weight.grad.any(), name


def test_gradients_are_right() -> None:
    characters = CharCNNConfig(dim=2, filters=((1, 2), (2, 2)), max_characters_per_token=4)
    lstm = LSTMConfig(dim=3, cell_clip=0.5, proj_clip=0.3)
    torch.manual_seed(1)
    bilm = BiLM(BiLMConfig(token_dim=2, characters=characters, n_highway=1, lstm=lstm)).double()
    with torch.no_grad():
        for weight in bilm.parameters():
            weight.normal_()
    batch = bilm.encode([["a", "bc"], ["c"]])
    state = bilm(batch).state
    names = [name for name, _ in bilm.named_parameters() if "embedding" not in name]  # whose row 0 has no gradient
    weights = [bilm.get_parameter(name) for name in names]
    cell, hidden = (part.detach().requires_grad_() for part in (state.cell, state.hidden))

    def run(cell: Tensor, hidden: Tensor, *weights: Tensor) -> Tensor:
        output = torch.func.functional_call(
            bilm, dict(zip(names, weights, strict=True)), (batch, BiLMState(cell, hidden))
        )
        return output.layers

    assert torch.autograd.gradcheck(run, (cell, hidden, *weights), fast_mode=True)


def test_a_state_carries_gradients() -> None:
    """Truncation is the caller's choice, who detaches."""
    bilm = bilm_of(PUBLISHED, seed=0)
    first = bilm(bilm.encode([["the", "river"]]))
    bilm(bilm.encode([["a"]]), first.state).layers[1:].sum().backward()
    assert first.state.cell.requires_grad


# --- the settled start -----------------------------------------------------------------------------------------------


@every_case
def test_the_settled_state_is_the_oracles(case: Case) -> None:
    state = bilm_of(case).start("settled", 1)
    expected = settled_state(checkpoint_of(case), case.shape, vocabulary=vocabulary_ids(case))
    close(state.cell[:, :, 0], expected.cell)
    close(state.hidden[:, :, 0], expected.hidden)


def test_a_model_of_words_without_a_full_stop_settles_on_the_marks_alone() -> None:
    case = WORDS
    bilm = bilm_of(case)
    assert bilm.vocabulary is not None
    words = tuple("stop" if word == "." else word for word in bilm.vocabulary.words)
    bilm.vocabulary = Vocabulary(words)
    state, empty = bilm.start("settled", 1), bilm.encode([["<S>", "</S>"]])
    expected = None
    for _ in range(3):
        expected = bilm(empty, expected, marks="none").state
    assert expected is not None
    assert torch.equal(state.cell, expected.cell)


def test_a_model_of_both_reads_the_full_stop_by_its_characters() -> None:
    config = BiLMConfig(token_dim=4, words=WordsConfig(n_words=4, dim=2), lstm=LSTMConfig(dim=5))
    torch.manual_seed(0)
    bilm = BiLM(config, Vocabulary(("<S>", "</S>", "<UNK>", "a")))
    state, stop = bilm.start("settled", 1), bilm.encode([["."]])
    expected = None
    for _ in range(3):
        expected = bilm(stop, expected).state
    assert expected is not None
    torch.testing.assert_close(state.cell, expected.cell, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("unchecked")
def test_any_other_start_is_an_error() -> None:
    with pytest.raises(SettingsError, match="'zero' or 'settled', found 'carry'"):
        bilm_of(PUBLISHED).start("carry", 2)  # type: ignore[arg-type]


def n_runs(bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows whenever the model settles."""
    runs: list[int] = []
    settle = bilm._settle

    def counted() -> BiLMState:
        runs.append(1)
        return settle()

    monkeypatch.setattr(bilm, "_settle", counted)
    return runs


def test_it_settles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bilm = bilm_of(PUBLISHED)
    runs = n_runs(bilm, monkeypatch)
    for n_rows in (1, 3, 2):
        assert bilm.start("settled", n_rows).n_rows == n_rows
        bilm(bilm.encode([["a"]]))
        bilm.requires_grad_(n_rows == 3).train(n_rows == 3)
    assert len(runs) == 1


def step(bilm: BiLM) -> None:
    optimizer = torch.optim.SGD(bilm.parameters(), lr=0.1)
    bilm(bilm.encode([["the", "river"]])).layers.sum().backward()
    optimizer.step()


def load(bilm: BiLM) -> None:
    bilm.load_state_dict({name: tensor * 1.1 for name, tensor in bilm.state_dict().items()})


def assign(bilm: BiLM) -> None:
    bilm.load_state_dict({name: tensor * 1.1 for name, tensor in bilm.state_dict().items()}, assign=True)


def halve(bilm: BiLM) -> None:
    bilm.float()


@pytest.mark.parametrize("change", [step, load, assign, halve])
def test_it_settles_again_when_a_weight_changed(change: Any) -> None:
    bilm = bilm_of(PUBLISHED, seed=0)
    before = bilm.start("settled", 1).cell.clone()
    change(bilm)
    after = bilm.start("settled", 1)
    fresh = BiLM(bilm.config).to(before.dtype if change is not halve else torch.float32)
    fresh.load_state_dict(bilm.state_dict())
    assert torch.equal(after.cell, fresh.start("settled", 1).cell)
    assert not torch.equal(after.cell.double(), before)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_it_may_settle_in_any_mode_and_be_trained_from(mode: Any) -> None:
    bilm = bilm_of(PUBLISHED, seed=0)
    with mode():
        bilm.start("settled", 1)
    state = bilm.start("settled", 2)
    assert not state.cell.is_inference() and not state.cell.requires_grad
    bilm(bilm.encode([["a"], ["the", "river"]]), state).layers.sum().backward()
    assert all(weight.grad is not None for weight in bilm.parameters())


def test_autocast_does_not_stay_in_the_settled_state() -> None:
    """What was first settled under autocast was kept in its low precision for all later calls."""
    plain, under = bilm_of(PUBLISHED, dtype=torch.float32), bilm_of(PUBLISHED, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under.start("settled", 1)
    assert torch.equal(under.start("settled", 1).cell, plain.start("settled", 1).cell)


def copied(bilm: BiLM) -> BiLM:
    return copy.deepcopy(bilm)


def pickled(bilm: BiLM) -> BiLM:
    again: BiLM = pickle.loads(pickle.dumps(bilm))
    return again


def saved(bilm: BiLM) -> BiLM:
    file = io.BytesIO()
    torch.save(bilm, file)
    file.seek(0)
    again: BiLM = torch.load(file, weights_only=False)
    return again


@pytest.mark.parametrize("copying", [copied, pickled, saved])
@pytest.mark.parametrize("case", [PUBLISHED, WORDS], ids=str)
def test_a_copy_settles_by_its_own_weights(case: Case, copying: Any) -> None:
    bilm = bilm_of(case)
    settled = bilm.start("settled", 1)
    again = copying(bilm)
    assert torch.equal(again.start("settled", 1).cell, settled.cell)
    load(again)
    assert not torch.equal(again.start("settled", 1).cell, settled.cell)
    assert torch.equal(bilm.start("settled", 1).cell, settled.cell)


def test_a_state_dict_holds_weights_alone() -> None:
    bilm = bilm_of(PUBLISHED)
    before = list(bilm.state_dict())
    bilm.start("settled", 1)
    assert list(bilm.state_dict()) == before == [name for name, _ in bilm.named_parameters()]


# --- invariance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["zero", "settled"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("case", [PUBLISHED, WORDS, BOTH, CASES["tight-clips"]], ids=str)
def test_a_sentence_does_not_know_its_batch(case: Case, dtype: torch.dtype, start: Any) -> None:
    bilm = bilm_of(case, dtype=dtype)
    sentences = [list(sentence) for sentence in SENTENCES if sentence] + [["the"] * 40]
    n = len(sentences)
    together = bilm(bilm.encode(sentences), bilm.start(start, n)).layers
    backward = bilm(bilm.encode(sentences[::-1]), bilm.start(start, n)).layers.flip(1)
    for i, sentence in enumerate(sentences):
        alone = bilm(bilm.encode([sentence]), bilm.start(start, 1)).layers[:, 0]
        spread = alone.std(dim=(1, 2), correction=0) if len(sentence) > 1 else together.std(dim=(1, 2, 3))
        bound = 1e-12 if dtype == torch.float64 else 3e-5 * spread[:, None, None]
        for found in (together, backward):
            assert ((found[:, i, : len(sentence)] - alone).abs() <= bound).all()


def test_initial_weights_are_neither_dead_nor_wild() -> None:
    torch.manual_seed(0)
    bilm = BiLM(BiLMConfig.tiny())
    layers = bilm(bilm.encode([["some", "words", "to", "read"]])).layers.detach()
    assert all(1e-3 < float(layer.std()) < 10 for layer in layers)
    assert math.isfinite(float(layers.sum()))


# --- what is handed in -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_ids_are_whole_numbers(dtype: torch.dtype, unchecked: None) -> None:
    with pytest.raises(DataError, match="takes whole numbers"):
        bilm_of(PUBLISHED)(torch.zeros(1, 2, 50, dtype=dtype))


@pytest.mark.parametrize("wrong", [-1, 262, 1 << 40])
def test_an_id_beyond_the_embedding_is_named_with_its_place(wrong: int, tiny: BiLM) -> None:
    """It was an IndexError here, and the end of the process on a GPU."""
    ids = tiny.encode([["a", "b"], ["c"]]).ids
    ids[0, 1, 3] = wrong
    with pytest.raises(DataError, match=f"sentence 0, token 1, character 3 is {wrong}, expected 0 to 261"):
        tiny(ids)


def test_padding_inside_a_sentence_is_refused(tiny: BiLM) -> None:
    """Its sentence's end mark overwrote a token."""
    ids = tiny.encode([["a", "b", "c"]]).ids
    ids[0, 1] = 0
    with pytest.raises(DataError, match="sentence 0, token 1 is padding and a token follows"):
        tiny(ids)


@pytest.mark.parametrize(
    ("sentences", "place"),
    [([["a"], ["b", 3]], "sentence 1, token 1"), ([[b"a"]], "sentence 0, token 0"), ([["a"], None], "sentence 1: ")],
)
def test_a_token_that_is_no_text_is_named_with_its_place(sentences: Any, place: str, unchecked: None) -> None:
    for case in (PUBLISHED, WORDS):
        with pytest.raises(DataError, match=place):
            bilm_of(case).encode(sentences)


IDS_UNDER_COMPILE = """
import torch, elmokit
bilm = elmokit.load_bilm("random-tiny")
ids = bilm.encode([["the", "river"], ["a"]]).ids
assert torch.equal(torch.compile(bilm, backend="eager")(ids).layers, bilm(ids).layers)
"""


def test_ids_under_torch_compile() -> None:
    """In a process of its own, without the check of signatures. NumPy made the marks, which PyTorch could not trace."""
    subprocess.run([sys.executable, "-c", IDS_UNDER_COMPILE], check=True, timeout=200)
