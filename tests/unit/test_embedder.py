"""Texts in, vectors out: what may be given, what comes back, how sentences start, and how little is read ahead."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch

import elmokit
from elmokit import Embedder, SentenceVectors
from elmokit.embed import embedder as module
from elmokit.errors import DataError, SettingsError, WeightsError
from elmokit.kernels import recurrence
from elmokit.kernels.engine import Engine, Rows
from elmokit.kernels.recurrence import PackedLayer
from elmokit.kernels.word_table import WordTable
from elmokit.text.tokens import Tokens

from oracle_models import CASES, PUBLISHED, WORDS, bilm_of, checkpoint_of
from reference.checkpoints import SENTENCES, Case, vocabulary_ids
from reference.numpy_bilm import embed_sentences


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return elmokit.load("random-tiny", tokenizer="whitespace", device="cpu")


def tiny(**settings: Any) -> Embedder:
    return elmokit.load("random-tiny", **({"tokenizer": "whitespace", "device": "cpu"} | settings))


def same(found: list[SentenceVectors], expected: list[SentenceVectors], *, atol: float = 1e-5) -> None:
    assert [vectors.tokens for vectors in found] == [vectors.tokens for vectors in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.layers, other.layers, rtol=0, atol=atol)


# --- what comes back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["zero", "settled", "carry"])
@pytest.mark.parametrize(
    "case", [PUBLISHED, WORDS, *(CASES[name] for name in ("forward", "backward", "words-and-chars"))], ids=str
)
def test_vectors_are_the_oracles(case: Case, state: Any) -> None:
    embedder = Embedder(bilm_of(case), state=state, precision="float64", batch_size=2, batch_tokens=16, device="cpu")
    expected = embed_sentences(
        checkpoint_of(case), case.shape, SENTENCES, start=state, batch_size=2, vocabulary=vocabulary_ids(case)
    )
    for found, tokens, layers in zip(embedder.embed(SENTENCES), SENTENCES, expected.layers, strict=True):
        assert found.tokens == tokens and found.layers.dtype == np.float64
        assert found.directions == case.shape.directions
        np.testing.assert_allclose(found.layers, layers, rtol=0, atol=1e-11)


@pytest.mark.parametrize("state", ["zero", "settled", "carry"])
def test_no_sentences_and_no_tokens(state: Any) -> None:
    embedder = tiny(state=state)
    assert embedder.embed([]) == []
    assert list(embedder.stream(iter(()))) == []
    found = embedder.embed([[], "", "a", "  ", ()])
    assert [vectors.layers.shape for vectors in found] == [(3, n, 32) for n in (0, 0, 1, 0, 0)]
    assert {vectors.layers.dtype for vectors in found} == {np.dtype(np.float32)}
    assert found[0].offsets is None and found[1].offsets == ()
    split = tiny(state=state, split_sentences=True).embed(["", " "])
    assert [vectors.layers.shape for vectors in split] == [(3, 0, 32)] * 2


def test_texts_and_token_lists_mix(embedder: Embedder) -> None:
    text, tokens, again = embedder.embed(["the river ran", ["the", "river", "ran"], ("the", "river ran")])
    np.testing.assert_allclose(text.layers, tokens.layers, rtol=0, atol=1e-6)
    assert text.offsets == ((0, 3), (4, 9), (10, 13)) and tokens.offsets is None
    assert again.tokens == ("the", "river ran"), "a token is never cut"


def test_token_lists_are_never_tokenised() -> None:
    def fails(text: str) -> list[str]:
        raise AssertionError(text)

    (found,) = tiny(tokenizer=fails).embed([["Don't", "re-tokenise", "me .", "", " "]])
    assert found.tokens == ("Don't", "re-tokenise", "me .", "", " ")
    assert found.layers.shape == (3, 5, 32)


def test_tokens_may_come_from_anything(embedder: Embedder) -> None:
    """An iterator of tokens was used up by the check of them, and gave no token."""
    lists = (["a", "b"], ("a", "b"), iter(["a", "b"]), np.array(["a", "b"]))
    assert [vectors.tokens for vectors in embedder.embed(lists)] == [("a", "b")] * 4  # type: ignore[arg-type]


def test_a_callable_tokenizer() -> None:
    found = tiny(tokenizer=lambda text: text.split("-")).embed(["a-bc", "d"])
    assert [vectors.tokens for vectors in found] == [("a", "bc"), ("d",)]
    assert found[0].offsets == ((0, 1), (2, 4))

    def own(text: str) -> Tokens:
        return Tokens(("X",), ((1, 2),))

    assert tiny(tokenizer=own).embed(["abc"])[0].offsets == ((1, 2),)  # type: ignore[arg-type]


def test_the_tokenizer_is_that_of_the_model_unless_told() -> None:
    text = "Don't stop."
    assert tiny(tokenizer=None).embed([text])[0].tokens == ("Don", "'t", "stop", ".")
    assert tiny(tokenizer="characters").embed(["ab c"])[0].tokens == ("a", "b", "c")
    assert tiny(tokenizer="whitespace").embed([text])[0].tokens == ("Don't", "stop.")
    with pytest.raises(SettingsError, match="unknown tokenizer"):
        tiny(tokenizer="mosses")


def test_split_sentences_gives_one_result_for_each_input() -> None:
    text = "The river rose. The bank flooded."
    splitting, whole = tiny(tokenizer="moses", split_sentences=True), tiny(tokenizer="moses")
    found = splitting.embed([text, ["The", "river", "rose", ".", "The", "bank", "flooded", "."], "", "One."])
    assert [len(vectors) for vectors in found] == [8, 8, 0, 2]
    assert found[0].offsets is not None
    assert [text[start:end] for start, end in filter(None, found[0].offsets)] == list(found[0].tokens)
    parts = whole.embed(["The river rose.", "The bank flooded."])
    np.testing.assert_allclose(found[0].layers, np.concatenate([p.layers for p in parts], axis=1), rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[1].layers, whole.embed([text])[0].layers, rtol=0, atol=1e-6)
    assert found[2].layers.shape == (3, 0, 32)


def test_a_string_is_no_list_of_sentences(embedder: Embedder) -> None:
    with pytest.raises(DataError, match="expected a list of sentences, found one text: 'The river'") as error:
        embedder.embed("The river")
    assert "embed([text])" in error.value.hint


@pytest.mark.parametrize("wrong", [7, None, b"bytes", float("nan"), ["list"]])
def test_a_token_that_is_no_text_is_named(embedder: Embedder, wrong: Any) -> None:
    with pytest.raises(DataError, match="sentence 2, token 1: expected a text, found"):
        embedder.embed(["fine", ["also", "fine"], ["a", wrong]])


@pytest.mark.parametrize("wrong", [7, None, float("nan")])
def test_a_sentence_that_is_no_sentence_is_named(embedder: Embedder, wrong: Any) -> None:
    """A missing value of a table, say: it was a TypeError from deep inside."""
    with pytest.raises(DataError, match="sentence 1: expected a text or a list of tokens, found"):
        embedder.embed(["fine", wrong])


def test_a_tokenizer_that_gives_nonsense_is_an_error() -> None:
    with pytest.raises(DataError, match="tokenizer"):
        tiny(tokenizer=lambda text: [1, 2]).embed(["a"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"state": "none"}, "state is one of zero, settled, carry, found 'none'"),
        ({"precision": "float16"}, "precision is one of .* found 'float16'"),
        ({"batch_tokens": 0}, "must be positive"),
        ({"batch_size": 0}, "must be positive"),
        ({"device": "abacus"}, "abacus"),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        tiny(**wrong)


def test_a_model_of_words_without_its_words_says_so_at_once() -> None:
    bilm = bilm_of(WORDS)
    bilm.vocabulary = None
    with pytest.raises(DataError, match="no vocabulary"):
        Embedder(bilm)


# --- how a sentence starts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trained", "state"), [("carry", "settled"), ("settled", "settled"), ("zero", "zero")])
def test_the_default_suits_the_training(trained: Any, state: str) -> None:
    assert Embedder(bilm_of(PUBLISHED, state=trained)).state == state


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_carry_is_carrying_by_hand(batch_size: int) -> None:
    embedder = tiny(state="carry", batch_size=batch_size, precision="float64")
    sentences = [list(sentence) for sentence in SENTENCES]
    rows: list[Any] = [embedder.bilm.start("zero", 1) for _ in range(batch_size)]
    found = embedder.embed(sentences)
    for number, sentence in enumerate(sentences):
        row = number % batch_size
        with torch.no_grad():
            output = embedder.bilm(embedder.bilm.encode([sentence]), rows[row])
        rows[row] = output.state
        np.testing.assert_allclose(found[number].layers, output.layers[:, 0].numpy(), rtol=0, atol=1e-12)


def test_carry_begins_anew_with_each_call() -> None:
    embedder = tiny(state="carry", batch_size=2)
    same(embedder.embed(SENTENCES), embedder.embed(SENTENCES), atol=0.0)
    first, second = embedder.embed([["the", "river"]] * 3)[::2]
    assert not np.allclose(first.layers[1], second.layers[1])


def test_carry_counts_sentences_not_inputs() -> None:
    """Batches were cut where an input ended, so that a text of two sentences moved all that came behind it."""
    sentences = ["One.", "Two ran.", "Three ran off.", "Four.", "Five is last."]
    settings: dict[str, Any] = {"state": "carry", "batch_size": 2, "tokenizer": "moses", "precision": "float64"}
    alone = tiny(**settings).embed(sentences)
    joined = [sentences[0], "", " ".join(sentences[1:3]), "", "", " ".join(sentences[3:])]
    found = tiny(**settings, split_sentences=True).embed(joined)
    assert [len(vectors) for vectors in found] == [2, 0, 7, 0, 0, 6]
    np.testing.assert_allclose(
        np.concatenate([vectors.layers for vectors in found], axis=1),
        np.concatenate([vectors.layers for vectors in alone], axis=1),
        rtol=0,
        atol=1e-12,
    )


# --- determinism and invariance --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["zero", "settled"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_sentence_does_not_know_its_company(state: Any, precision: Any) -> None:
    random.seed(0)
    words = ["the", "river", "bank", "Ärger", "日本", "x" * 60, ".", ""]
    sentences = [random.choices(words, k=random.choice((0, 1, 2, 5, 9, 30))) for _ in range(40)]
    order = random.sample(range(40), 40)

    def embed(sentences: list[list[str]], batch_tokens: int) -> list[SentenceVectors]:
        return tiny(state=state, precision=precision, batch_tokens=batch_tokens).embed(sentences)

    expected = embed(sentences, 1)
    spread = np.concatenate([vectors.layers for vectors in expected], axis=1).std(axis=(1, 2))[:, None, None]
    bound = 1e-12 if precision == "float64" else 3e-5 * spread
    for batch_tokens in (1, 40, 333, 100_000):
        found = embed([sentences[i] for i in order], batch_tokens)
        for i, vectors in zip(order, found, strict=True):
            assert vectors.tokens == tuple(sentences[i])
            assert (np.abs(vectors.layers - expected[i].layers) <= bound).all()


@pytest.mark.parametrize("state", ["zero", "settled", "carry"])
def test_the_same_again_is_the_same_bit_for_bit(state: Any) -> None:
    embedder = tiny(state=state, batch_size=3, batch_tokens=20)
    first = embedder.embed(SENTENCES)
    embedder.embed([["something", "else"]] * 5)
    same(embedder.embed(SENTENCES), first, atol=0.0)
    same(list(embedder.stream(iter(SENTENCES))), first, atol=0.0)
    same(tiny(state=state, batch_size=3, batch_tokens=20).embed(SENTENCES), first, atol=0.0)


def test_double_precision_is_that_of_the_computation() -> None:
    exact, rough = tiny(precision="float64").embed(SENTENCES), tiny().embed(SENTENCES)
    assert {vectors.layers.dtype for vectors in exact} == {np.dtype(np.float64)}
    same(rough, exact, atol=1e-5)
    assert any((one.layers != other.layers).any() for one, other in zip(exact, rough, strict=True))


def test_results_are_the_users_own(embedder: Embedder) -> None:
    first, second = embedder.embed([["a", "b"], ["a", "b"]])
    before = second.layers.copy()
    first.layers[:] = 0
    np.testing.assert_array_equal(second.layers, before)
    assert first.layers.base is None, "a view would keep its whole batch in memory"


def test_no_gradients_are_kept(embedder: Embedder) -> None:
    embedder.embed([["a"]])
    assert all(weight.grad is None for weight in embedder.bilm.parameters())
    assert not embedder.bilm.training


# --- bounded memory --------------------------------------------------------------------------------------------------


class Counted:
    """Endless sentences of three tokens, and how many were taken."""

    def __init__(self) -> None:
        self.n = 0

    def __iter__(self) -> Iterator[list[str]]:
        while True:
            self.n += 1
            yield ["a", "b", "c"]


def test_a_stream_reads_a_bounded_way_ahead() -> None:
    source, batch_tokens = Counted(), 50
    stream = tiny(batch_tokens=batch_tokens).stream(source)
    assert source.n == 0, "nothing is read before it is asked for"
    for given in range(1, 301):
        next(stream)
        assert source.n - given <= 4 * batch_tokens / 4 + 1


def test_a_carried_stream_reads_one_batch_ahead() -> None:
    source = Counted()
    stream = tiny(state="carry", batch_size=5).stream(source)
    for given in range(1, 51):
        next(stream)
        assert source.n - given <= 5


def watched_runs(monkeypatch: pytest.MonkeyPatch, before: Callable[[Rows], object]) -> None:
    """`before` sees what each run of an engine is given."""
    run = Engine.run

    def watched(engine: Engine, vectors: Any, rows: Rows, state: Any, **how: Any) -> Any:
        before(rows)
        return run(engine, vectors, rows, state, **how)

    monkeypatch.setattr(Engine, "run", watched)


def test_batches_keep_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = tiny(batch_tokens=60)
    shapes: list[tuple[int, int]] = []
    watched_runs(monkeypatch, lambda rows: shapes.append(rows.index.shape))
    embedder.embed([["a"] * (n % 23) for n in range(100)] + [["a"] * 200])
    assert all(rows * width <= 60 or rows == 1 for rows, width in shapes)
    assert max(width for _, width in shapes) == 202
    assert not any(width == 2 for _, width in shapes), "an empty sentence is no work"


@pytest.mark.parametrize("state", ["zero", "settled", "carry"])
def test_ten_thousand_empty_sentences_are_no_work(state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise AssertionError("a layer ran")

    monkeypatch.setattr(PackedLayer, "__call__", fails)
    found = tiny(state=state).embed([[]] * 10_000)
    assert {vectors.layers.shape for vectors in found} == {(3, 0, 32)} and len(found) == 10_000


def test_a_sentence_of_many_tokens_is_gathered_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    monkeypatch.setattr(recurrence, "GATES_BYTES", 1 << 20)
    random.seed(0)
    sentence = random.choices(["the", "river", "bank", ".", "Ärger"], k=30_000)
    embedder = Embedder(bilm_of(CASES["one-layer"], seed=0), precision="float64", device="cpu", batch_tokens=64)
    devices, pieces = [], []
    run, call = Engine.run, PackedLayer.__call__
    monkeypatch.setattr(Engine, "run", lambda *given, **how: devices.append(how["device"]) or run(*given, **how))
    monkeypatch.setattr(PackedLayer, "__call__", lambda *given: pieces.append(given[3].n_packed) or call(*given))
    (found,) = embedder.embed([sentence])
    assert devices == [torch.device("cpu")]
    assert len(pieces) > 20 and sum(pieces) == 30_002
    bilm = embedder.bilm
    with torch.no_grad():
        expected = bilm(bilm.encode([sentence]), bilm.start("settled", 1)).layers[:, 0].numpy()
    np.testing.assert_allclose(found.layers, expected, rtol=0, atol=1e-12)


# --- when memory runs out --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["zero", "settled", "carry"])
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_what_is_too_much_at_once_is_done_in_parts(state: Any, n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(0)
    sentences = [random.choices(["the", "river", "a"], k=random.choice((0, 1, 2, 3, 7))) for _ in range(40)]
    settings: dict[str, Any] = {"state": state, "precision": "float64", "batch_size": 7, "batch_tokens": 60}
    expected = tiny(**settings).embed(sentences)
    refused, done = [], []

    def too_many(rows: Rows) -> None:
        if len(done) > 2 and len(rows.index) > n_rows:
            refused.append(len(rows.index))
            raise torch.OutOfMemoryError
        done.append(len(rows.index))

    watched_runs(monkeypatch, too_many)
    same(tiny(**settings).embed(sentences), expected, atol=1e-12)
    assert refused and max(done[3:]) <= n_rows < max(done)


def test_words_that_are_too_many_at_once_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [[f"w{i}{j}" for j in range(5)] for i in range(8)]
    expected = tiny(precision="float64").embed(sentences)
    read, refused = Engine.token_vectors, []

    def too_many(engine: Engine, batch: Any) -> Any:
        if len(batch.characters) > 15:
            refused.append(len(batch.characters))
            raise torch.OutOfMemoryError
        return read(engine, batch)

    monkeypatch.setattr(Engine, "token_vectors", too_many)
    embedder = tiny(precision="float64")
    same(embedder.embed(sentences), expected, atol=1e-12)
    assert refused
    same(embedder.embed(sentences), expected, atol=1e-12)


@pytest.mark.parametrize("state", ["settled", "carry"])
def test_a_sentence_that_is_too_long_for_the_device_is_an_error(state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(rows: Rows) -> None:
        if rows.index.shape[1] > 1000:
            raise torch.OutOfMemoryError

    watched_runs(monkeypatch, too_long)
    embedder = tiny(state=state)
    with pytest.raises(DataError, match="cpu has too little memory for a sentence of 1,234 tokens") as error:
        embedder.embed([["a"] * 3, ["a"] * 1234, ["a"]])
    assert error.value.hint and isinstance(error.value.__cause__, torch.OutOfMemoryError)
    assert len(embedder.embed([["a"]])) == 1, "it goes on"


# --- words that were read before -------------------------------------------------------------------------------------


def test_words_are_read_once() -> None:
    embedder = tiny()
    assert embedder.word_stats.hit_rate == 0
    embedder.embed([["the", "river"], ["the", "bank"]])
    embedder.embed([["the", "bank", "rose"]])
    assert (embedder.word_stats.asked, embedder.word_stats.known) == (6, 2)


@pytest.mark.parametrize("state", ["settled", "carry"])
@pytest.mark.parametrize("n_words", [0, 1, 10, 60])
def test_a_small_table_of_words_changes_nothing(state: Any, n_words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All words distinct, all the same, and as text is: some common and many rare."""
    random.seed(0)
    distinct = [[f"w{i}x{j}" for j in range(i % 13)] for i in range(40)]
    equal = [["the"] * (i % 9) for i in range(20)]
    common = [[f"w{int(random.paretovariate(0.7))}" for _ in range(i % 11)] for i in range(40)]
    settings: dict[str, Any] = {"state": state, "precision": "float64", "batch_size": 5, "batch_tokens": 50}
    expected = [tiny(**settings).embed(sentences) for sentences in (distinct, equal, common)]
    monkeypatch.setattr(module, "WordTable", partial(WordTable, max_bytes=(3 + n_words) * 16 * 8))
    embedder = tiny(**settings)
    for _ in range(2):
        for sentences, vectors in zip((distinct, equal, common), expected, strict=True):
            same(embedder.embed(sentences), vectors, atol=1e-12)


# --- layers and precision --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["zero", "settled", "carry"])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_the_first_layers_are_those_of_the_whole(state: Any, n_layers: int) -> None:
    settings: dict[str, Any] = {"state": state, "batch_size": 2, "batch_tokens": 30}
    whole, some = tiny(**settings).embed(SENTENCES), tiny(**settings, n_layers=n_layers).embed(SENTENCES)
    for found, expected in zip(some, whole, strict=True):
        assert found.layers.shape == (n_layers, len(expected), 32)
        np.testing.assert_array_equal(found.layers, expected.layers[:n_layers])


@pytest.mark.parametrize("n_layers", [0, -1, 4])
def test_layers_that_there_are_not_are_an_error(n_layers: int) -> None:
    with pytest.raises(SettingsError, match=f"n_layers is 1 to 3 of this model, found {n_layers}"):
        tiny(n_layers=n_layers)


@pytest.mark.parametrize("state", ["zero", "settled", "carry"])
def test_vectors_of_bfloat16_are_float32_and_close(state: Any) -> None:
    settings: dict[str, Any] = {"state": state, "batch_size": 2}
    rough, exact = tiny(**settings, precision="bfloat16").embed(SENTENCES), tiny(**settings).embed(SENTENCES)
    for found, expected in zip(rough, exact, strict=True):
        assert found.layers.dtype == np.float32 and found.layers.shape == expected.layers.shape
    found, expected = (np.concatenate([v.layers for v in vectors], axis=1) for vectors in (rough, exact))
    assert (found != expected).any()
    product = (found * expected).sum(axis=2)
    cosines = product / np.linalg.norm(found, axis=2) / np.linalg.norm(expected, axis=2)
    assert cosines.min() > 0.999


# --- weights that change ---------------------------------------------------------------------------------------------


def of_the_bilm(embedder: Embedder, sentences: Sequence[Sequence[str]]) -> list[SentenceVectors]:
    """What `BiLM.forward` gives, sentence by sentence."""
    bilm, found = embedder.bilm, []
    for sentence in sentences:
        with torch.no_grad():
            output = bilm(bilm.encode([sentence]), bilm.start("settled", 1))
        found.append(SentenceVectors(tuple(sentence), output.layers[:, 0].numpy()))
    return found


def test_a_change_of_any_weight_is_seen() -> None:
    embedder = Embedder(bilm_of(CASES["words-and-chars"], seed=0), precision="float64", device="cpu")
    for name, weight in embedder.bilm.named_parameters():
        before = embedder.embed(SENTENCES)
        with torch.no_grad():
            weight.add_(0.1)
        found = embedder.embed(SENTENCES)
        same(found, of_the_bilm(embedder, SENTENCES), atol=1e-12)
        assert any((one.layers != other.layers).any() for one, other in zip(found, before, strict=True)), name


CHANGES: dict[str, Any] = {
    "loaded": lambda bilm: bilm.load_state_dict(bilm_of(PUBLISHED, seed=2).state_dict()),
    "loaded in their place": lambda bilm: bilm.load_state_dict(bilm_of(PUBLISHED, seed=2).state_dict(), assign=True),
    "in bfloat16 and back": lambda bilm: bilm.bfloat16().double(),
    "another parameter": lambda bilm: setattr(
        bilm.forward_lstm.layers[0], "bias", torch.nn.Parameter(torch.ones(48, dtype=torch.float64))
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_weights_are_seen(change: Any) -> None:
    embedder = Embedder(bilm_of(PUBLISHED, seed=0), precision="float64", device="cpu")
    before = embedder.embed(SENTENCES)
    change(embedder.bilm)
    found = embedder.embed(SENTENCES)
    same(found, of_the_bilm(embedder, SENTENCES), atol=1e-12)
    assert any((one.layers != other.layers).any() for one, other in zip(found, before, strict=True))


def test_another_bilm_is_seen() -> None:
    """As `language_model` puts the one with a softmax in the place of the one without."""
    embedder = Embedder(bilm_of(PUBLISHED, seed=0), precision="float64", device="cpu")
    embedder.embed(SENTENCES)
    embedder.bilm = bilm_of(PUBLISHED, seed=2)
    same(embedder.embed(SENTENCES), of_the_bilm(embedder, SENTENCES), atol=1e-12)


def test_a_model_that_is_moved_to_float64_gives_float64() -> None:
    embedder = tiny()
    before = embedder.embed(SENTENCES)
    embedder.bilm.double()
    found = embedder.embed(SENTENCES)
    assert {vectors.layers.dtype for vectors in found} == {np.dtype(np.float64)}
    same(found, before)


def test_weights_that_are_no_numbers_are_refused_until_they_are_mended() -> None:
    embedder = tiny()
    expected = embedder.embed(SENTENCES)
    bias = embedder.bilm.token_layer.projection.bias  # type: ignore[union-attr]
    kept = bias.detach().clone()
    with torch.no_grad():
        bias[1:4] = float("nan")
    for _ in range(2):
        with pytest.raises(WeightsError, match=r"not finite numbers: token_layer\.projection\.bias has 3"):
            embedder.embed(SENTENCES)
    with torch.no_grad():
        bias.copy_(kept)
    same(embedder.embed(SENTENCES), expected, atol=0)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda embedder: pickle.loads(pickle.dumps(embedder))])
def test_copies_are_the_same_and_apart(how: Any) -> None:
    """One that had embedded could not be pickled: its table held a function that has no name."""
    embedder = elmokit.load("random-tiny", device="cpu")
    expected = embedder.embed(SENTENCES)
    again = how(embedder)
    same(again.embed(SENTENCES), expected, atol=0)
    with torch.no_grad():
        for weight in again.bilm.parameters():
            weight.mul_(0.5)
    same(embedder.embed(SENTENCES), expected, atol=0)
    assert (again.embed(SENTENCES)[0].layers != expected[0].layers).any()


# --- odd texts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["settled", "carry"])
def test_odd_tokens_have_vectors(state: Any) -> None:
    sentence = ["\x00", "\ud800", "a\udfffb", "", "<S>", "</S>", "\ufeff", "\u2028", "🙂" * 30, "\n"]
    (found,) = tiny(state=state).embed([sentence])
    assert found.tokens == tuple(sentence)
    assert np.isfinite(found.layers).all()
    (text,) = tiny(state=state).embed(["a\x00b \ud800 c"])
    assert text.tokens == ("a\x00b", "\ud800", "c") and np.isfinite(text.layers).all()


def test_a_token_of_ten_megabytes(embedder: Embedder) -> None:
    long, short = embedder.embed(["z" * 10_000_000 + " end", "z" * 22 + " end"])
    assert len(long.tokens[0]) == 10_000_000
    np.testing.assert_allclose(long.layers, short.layers, rtol=0, atol=1e-6)


def long_line(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    (found,) = tiny().embed(["a b c d " * (n // 4)])
    assert found.layers.shape == (3, n, 32)
    assert np.isfinite(found.layers).all()
    middle = found.layers[:, n // 2 : n // 2 + 4]
    np.testing.assert_allclose(found.layers[:, n // 2 + 4 : n // 2 + 8], middle, rtol=0, atol=1e-5)


def test_a_line_of_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    long_line(10_000, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_line_of_a_million_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    long_line(1_000_000, monkeypatch)


def test_autocast_around_it_changes_nothing(embedder: Embedder) -> None:
    """NumPy has no bfloat16: it was a TypeError."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = embedder.embed([["the", "river"]])
    same(found, embedder.embed([["the", "river"]]), atol=0)


@pytest.mark.parametrize("device", ["meta", "hpu", "xla", "nonsense"])
def test_a_device_that_computes_nothing_is_refused(device: str) -> None:
    with pytest.raises(SettingsError, match=f"device '{device}' cannot be used"):
        tiny(device=device)


def test_threads_may_share_one() -> None:
    """Two threads took the same row of the table for different words, and every later call failed."""
    words = [f"w{i}" for i in range(400)]
    sentences = [[words[(7 * i + j) % 400] for j in range(5)] for i in range(200)]
    expected = tiny().embed(sentences)
    shared, interval = tiny(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda i: shared.embed(sentences[i : i + 4]), range(0, 200, 4)))
    finally:
        sys.setswitchinterval(interval)
    for one, right in zip([vectors for some in found for vectors in some], expected, strict=True):
        np.testing.assert_allclose(one.layers, right.layers, rtol=0, atol=1e-5)


def test_one_that_is_dropped_frees_its_memory_at_once() -> None:
    embedder = tiny()
    embedder.embed([["a"]])
    dropped = weakref.ref(embedder)
    gc.disable()
    try:
        del embedder
        assert dropped() is None
    finally:
        gc.enable()
