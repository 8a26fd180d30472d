"""The output layer: log probabilities, with weights of its own or tied to the words'."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from elmokit import BiLM, BiLMConfig
from elmokit.errors import DataError
from elmokit.model.config import LSTMConfig, SoftmaxConfig, WordsConfig
from elmokit.model.softmax import Softmax
from elmokit.text.vocabulary import Vocabulary

from oracle_models import PUBLISHED, bilm_of, checkpoint_of
from reference.checkpoints import random_softmax
from reference.numpy_bilm import log_probabilities

TOKENS = ["the", "river", "bank"]


def test_log_probabilities_are_the_oracles() -> None:
    """The forward direction says what comes after each token, the backward one what came before it."""
    weights = random_softmax(PUBLISHED, 11)
    bilm = bilm_of(PUBLISHED)
    bilm.softmax = Softmax(BiLMConfig(token_dim=6, softmax=SoftmaxConfig(n_words=11))).double()
    tensors = {"weight": torch.tensor(weights["softmax/W"]), "bias": torch.tensor(weights["softmax/b"])}
    bilm.softmax.load_state_dict(tensors)
    top = bilm(bilm.encode([TOKENS]), marks="keep").layers[-1, 0]
    weight, bias = bilm.softmax_weights()
    expected = log_probabilities(checkpoint_of(PUBLISHED) | weights, PUBLISHED.shape, TOKENS)
    for hidden, oracle in ((top[:-1, :6], expected.forward), (top[1:, 6:], expected.backward)):
        assert oracle is not None
        found = (hidden @ weight.T + bias).log_softmax(-1)
        np.testing.assert_allclose(found.detach().numpy(), oracle, rtol=0, atol=1e-12)


def test_tied_weights_are_the_word_embeddings_without_the_padding_row() -> None:
    words = Vocabulary(("<S>", "</S>", "the", "river"))
    config = BiLMConfig(
        token_dim=4,
        characters=None,
        words=WordsConfig(n_words=4, dim=4),
        projection=False,
        lstm=LSTMConfig(dim=5),
        softmax=SoftmaxConfig(n_words=4, tied=True),
    )
    bilm = BiLM(config, words)
    assert bilm.softmax is not None and bilm.softmax.weight is None and bilm.token_layer.words is not None
    weight, bias = bilm.softmax_weights()
    assert bias is bilm.softmax.bias and torch.equal(weight, bilm.token_layer.words.weight[1:])
    weight.sum().backward()
    assert bilm.token_layer.words.weight.grad is not None
    assert bilm.n_parameters() == bilm.softmax.bias.numel() + 16 + sum(
        weight.numel() for name, weight in bilm.named_parameters() if "lstm" in name
    )


def test_the_bilm_runs_with_a_softmax_and_without() -> None:
    bilm = BiLM(BiLMConfig(token_dim=4, lstm=LSTMConfig(dim=5), softmax=SoftmaxConfig(n_words=7)))
    assert bilm.softmax is not None and bilm.softmax.weight is not None
    assert bilm.softmax.weight.shape == (7, 4)
    bilm(bilm.encode([TOKENS])).layers.sum().backward()
    assert bilm.softmax.weight.grad is None


def test_a_model_without_a_softmax_says_so() -> None:
    with pytest.raises(DataError, match="carries no softmax"):
        bilm_of(PUBLISHED).softmax_weights()
