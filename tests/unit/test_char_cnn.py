"""The token layer: against the oracle, and its edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from elmokit import BiLM, BiLMConfig
from elmokit.model import char_cnn
from elmokit.model.char_cnn import CharCNN, Highway
from elmokit.model.config import CharCNNConfig

from oracle_models import BOTH, CASES, PUBLISHED, WORDS, bilm_of, checkpoint_of
from reference.checkpoints import Case, vocabulary_ids
from reference.numpy_bilm import token_vectors

TOKENS = ["the", "Ärger", "", "x" * 70, "ü" * 30, "日本", "🙂", "<S>", "</S>", "river"]


@pytest.mark.parametrize("case", CASES.values(), ids=str)
def test_token_vectors_are_the_oracles(case: Case) -> None:
    bilm = bilm_of(case)
    expected = token_vectors(checkpoint_of(case), case.shape, TOKENS, vocabulary=vocabulary_ids(case))
    found = bilm.token_layer(bilm.encode([TOKENS]))[3:]
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-13)


@pytest.mark.parametrize("case", [PUBLISHED, WORDS, BOTH], ids=str)
def test_a_words_vector_is_its_own(case: Case) -> None:
    bilm = bilm_of(case)
    together = bilm.token_layer(bilm.encode([TOKENS]))[3:]
    alone = torch.cat([bilm.token_layer(bilm.encode([[token]]))[3:] for token in TOKENS])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-14)


def test_words_go_through_in_bounded_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    bilm = bilm_of(PUBLISHED)
    batch = bilm.encode([TOKENS])
    whole, seen = bilm.token_layer(batch), []
    bilm.token_layer.characters.convolutions[0].register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    monkeypatch.setattr(char_cnn, "WORDS_AT_ONCE", 4)
    torch.testing.assert_close(bilm.token_layer(batch), whole, rtol=0, atol=1e-14)
    assert seen == [4, 4, 4, 1]


def test_padding_characters_are_real_inputs() -> None:
    """Every position is convolved, so a longer row gives another vector for the same word."""
    torch.manual_seed(0)
    cnn = CharCNN(CharCNNConfig(dim=4, filters=((1, 8),)), n_highway=0)
    with torch.no_grad():
        cnn.embedding.weight[261] = 9.0
        cnn.convolutions[0].weight.abs_()
    rows = BiLM(BiLMConfig.tiny()).encode([["a"]]).ids[0]
    assert not torch.equal(cnn(rows[:, :3]), cnn(rows[:, :8]))


def test_a_fresh_highway_mostly_carries() -> None:
    torch.manual_seed(0)
    highway, x = Highway(64), torch.randn(500, 64)
    gate = torch.sigmoid(highway.gate(x))
    assert 0.1 < gate.mean().item() < 0.25
    assert torch.equal(highway(x), gate * torch.relu(highway.transform(x)) + (1 - gate) * x)


def test_padding_has_no_vector_and_learns_none() -> None:
    torch.manual_seed(0)
    cnn = CharCNN(CharCNNConfig(dim=4, filters=((1, 8),)), n_highway=1)
    assert not cnn.embedding.weight[0].any()
    cnn(torch.zeros(2, 50, dtype=torch.int64)).sum().backward()
    assert cnn.embedding.weight.grad is not None and not cnn.embedding.weight.grad[0].any()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_weights_begin_alive(activation: str) -> None:
    torch.manual_seed(0)
    config = CharCNNConfig(activation=activation)  # type: ignore[arg-type]
    cnn = CharCNN(config, n_highway=1)
    ids = BiLM(BiLMConfig(characters=config, token_dim=4)).encode([["some", "words", "here"]]).characters
    assert cnn(ids[3:]).std(dim=0).mean() > 1e-3


def test_ids_beyond_the_table_are_an_error() -> None:
    cnn = CharCNN(CharCNNConfig(dim=4, filters=((1, 8),)), n_highway=0)
    with pytest.raises(IndexError):
        cnn(torch.full((1, 50), 262))
    more = CharCNN(CharCNNConfig(dim=4, filters=((1, 8),), n_characters=300), n_highway=0)
    assert more(torch.full((1, 50), 299)).shape == (1, 8)
