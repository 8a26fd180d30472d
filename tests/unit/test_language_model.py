"""Scores, perplexity and substitutes against the NumPy oracle and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import elmokit
from elmokit import BiLM, BiLMConfig, DataError, Embedder
from elmokit.embed.language_model import log_probs, perplexity
from elmokit.kernels.engine import Engine
from elmokit.model.config import SoftmaxConfig
from elmokit.text.config import TextConfig
from elmokit.text.vocabulary import Vocabulary

from reference import checkpoints, numpy_bilm

WORDS = Vocabulary(("<S>", "</S>", "<UNK>", "the", "cat", "sees", "."))
SENTENCES = [["the", "cat", "sees", "."], ["zebra"], [], ["the", "the", "zebra", "."]]


@pytest.fixture
def bilm() -> BiLM:
    torch.manual_seed(0)
    config = BiLMConfig.tiny()
    config = BiLMConfig(
        token_dim=config.token_dim,
        characters=config.characters,
        n_highway=1,
        lstm=config.lstm,
        softmax=SoftmaxConfig(n_words=len(WORDS)),
        text=TextConfig(tokenizer="whitespace"),
    )
    return BiLM(config, WORDS).eval().double()


@pytest.mark.parametrize("start", ["zero", "settled"])
def test_log_probs_are_those_of_softmax_over_the_right_states(bilm, start):
    """Forward i from the state that has read all before it, backward i from the one that has read all behind it."""
    weight, bias = bilm.softmax_weights()
    for i, found in log_probs(Engine(bilm), SENTENCES, start=start):
        sentence = SENTENCES[i]
        batch = bilm.encode([["<S>", *sentence, "</S>"]])
        top = bilm(batch, bilm.start(start, 1), marks="none").layers[-1, 0]
        forward, backward = (torch.log_softmax(half @ weight.t() + bias, dim=1) for half in top.chunk(2, dim=1))
        ids = WORDS.ids(["<S>", *sentence, "</S>"])
        for k in range(len(sentence) + 1):
            assert found.forward[k].item() == pytest.approx(forward[k, ids[k + 1]].item())
            assert found.backward[k].item() == pytest.approx(backward[k + 1, ids[k]].item())


def test_the_oracle_agrees():
    case = checkpoints.SHAPES[0]
    weights = checkpoints.random_checkpoint(case, seed=1) | checkpoints.random_softmax(case.shape, len(WORDS), seed=1)
    assert isinstance(weights, dict)
    predictions = numpy_bilm.log_probabilities(weights, case.shape, ["the", "cat"])
    assert np.exp(predictions.forward).sum(axis=1) == pytest.approx(np.ones(3))


def test_perplexity_counts_a_sentences_end_and_spells_unknown_words(bilm):
    found = perplexity(Engine(bilm), SENTENCES, start="zero")
    assert found.tokens == sum(len(sentence) + 1 for sentence in SENTENCES)
    assert found.oov_share == 2 / 9
    assert found.perplexity == pytest.approx(math.sqrt(found.forward * found.backward))
    n_characters = sum(sum(map(len, sentence)) + len(sentence) + 1 for sentence in SENTENCES)
    bits = found.tokens * math.log2(found.perplexity) + 2 * 8 * (len("zebra") + 1)
    assert found.bits_per_character == pytest.approx(bits / n_characters)


def test_an_untrained_model_is_about_as_good_as_chance(bilm):
    assert perplexity(Engine(bilm), SENTENCES, start="zero").perplexity == pytest.approx(len(WORDS), rel=0.3)


def test_scores_are_in_input_order_and_leave_the_ends_apart(bilm):
    embedder = Embedder(bilm, precision="float64", batch_tokens=7)
    found = list(embedder.score(SENTENCES))
    assert [scores.tokens for scores in found] == [tuple(sentence) for sentence in SENTENCES]
    for scores in found:
        assert len(scores.forward) == len(scores.backward) == len(scores.tokens)
        np.testing.assert_allclose(scores.surprisal("backward"), -scores.backward / math.log(2))
    whole = sum(scores.forward.sum() + scores.forward_end for scores in found)
    expected = embedder.perplexity(SENTENCES)
    assert math.exp(-whole / expected.tokens) == pytest.approx(expected.forward)


def test_substitutes_look_at_both_sides_and_not_at_the_token_itself(bilm):
    embedder = Embedder(bilm, precision="float64")
    found = embedder.substitutes(["the", "cat", "."], 1, n=10)
    assert found == embedder.substitutes(["the", "zebra", "."], 1, n=10)
    assert {word for word, _ in found} == {"the", "cat", "sees", "."}
    assert sum(p for _, p in found) == pytest.approx(1.0)
    forward = dict(log_probs(Engine(bilm), [["the", word, "."] for word in ("cat", "sees")], start="settled"))
    backward = {i: float(p.backward[2]) for i, p in forward.items()}
    ratio = math.exp(float(forward[0].forward[1] - forward[1].forward[1]) + backward[0] - backward[1])
    assert dict(found)["cat"] / dict(found)["sees"] == pytest.approx(ratio)


def test_a_position_outside_the_sentence_is_told(bilm):
    with pytest.raises(DataError, match="position 3"):
        Embedder(bilm, precision="float64").substitutes(["the", "cat", "."], 3)


def test_a_model_without_a_softmax_says_so():
    with pytest.raises(DataError, match="softmax"):
        elmokit.load("random-tiny").perplexity(["a"])


def test_an_empty_text_has_no_perplexity(bilm):
    with pytest.raises(DataError, match="empty"):
        perplexity(Engine(bilm), [], start="zero")
