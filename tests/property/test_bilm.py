"""Padding, order and company change nothing; a text cut anywhere and carried on is the whole text."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit import BiLM, BiLMOutput, BiLMState, Embedder
from elmokit.kernels.engine import Engine
from elmokit.model.batch import with_marks

from oracle_models import BOTH, PUBLISHED, WORDS, bilm_of
from reference.checkpoints import Case

STABLE = settings(derandomize=True, deadline=None, max_examples=25)

TOKENS = st.sampled_from(["the", "river", "bank", ".", "", "<S>", "Ärger", "x" * 60, "\ud800", "\x00"])
SENTENCES = st.lists(st.lists(TOKENS | st.text(st.characters(), max_size=6), max_size=8), min_size=1, max_size=6)

every_case = pytest.mark.parametrize("case", [PUBLISHED, WORDS, BOTH], ids=str)
both_starts = pytest.mark.parametrize("start", ["zero", "settled"])


@cache
def model(case: Case) -> BiLM:
    """In float64, with weights that are clipped."""
    return bilm_of(case)


@cache
def engine(case: Case) -> Engine:
    return Engine(model(case))


def by_the_bilm(case: Case, sentences: list[list[str]], start: Any) -> BiLMOutput:
    bilm = model(case)
    with torch.no_grad():
        return bilm(bilm.encode(sentences), bilm.start(start, len(sentences)))


def by_its_engine(case: Case, sentences: list[list[str]], start: Any) -> BiLMOutput:
    bilm = model(case)
    batch, begin = bilm.encode(sentences), bilm.start(start, len(sentences))
    layers, mask, end = engine(case).padded(batch, with_marks(batch.index), (begin.cell, begin.hidden), drop_marks=True)
    return BiLMOutput(layers, mask, BiLMState(*end))


@pytest.mark.parametrize("run", [by_the_bilm, by_its_engine])
@every_case
@both_starts
@STABLE
@given(sentences=SENTENCES, data=st.data())
def test_a_sentence_does_not_know_its_batch(
    case: Case, start: Any, run: Any, sentences: list[list[str]], data: Any
) -> None:
    order = data.draw(st.permutations(range(len(sentences))))
    together = run(case, [sentences[i] for i in order], start)
    for row, i in enumerate(order):
        n = len(sentences[i])
        alone = run(case, [sentences[i]], start)
        torch.testing.assert_close(together.layers[:, row, :n], alone.layers[:, 0], rtol=0, atol=1e-12)
        torch.testing.assert_close(together.state.cell[:, :, row], alone.state.cell[:, :, 0], rtol=0, atol=1e-12)
        assert together.mask[row].sum() == n
        assert not together.layers[:, row, n:].any()


@every_case
@STABLE
@given(tokens=st.lists(TOKENS, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_forward_a_text_may_be_cut_anywhere(case: Case, tokens: list[str], cuts: list[int]) -> None:
    bilm = model(case)
    whole = bilm(bilm.encode([tokens]), marks="none", directions=["forward"])
    edges = [0, *sorted(min(cut, len(tokens)) for cut in cuts), len(tokens)]
    state, parts = None, []
    for first, last in pairwise(edges):
        output = bilm(bilm.encode([tokens[first:last]]), state, marks="none", directions=["forward"])
        state = output.state
        parts.append(output.layers)
    assert state is not None
    torch.testing.assert_close(torch.cat(parts, dim=2), whole.layers, rtol=0, atol=1e-12)
    torch.testing.assert_close(state.hidden, whole.state.hidden, rtol=0, atol=1e-12)


@every_case
@both_starts
@STABLE
@given(sentences=SENTENCES)
def test_an_engine_is_the_bilm(case: Case, start: Any, sentences: list[list[str]]) -> None:
    found, expected = (run(case, sentences, start) for run in (by_its_engine, by_the_bilm))
    torch.testing.assert_close(found.layers, expected.layers, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.state.hidden, expected.state.hidden, rtol=0, atol=1e-12)
    assert torch.equal(found.mask, expected.mask)


@every_case
@both_starts
@STABLE
@given(sentences=SENTENCES, batch_tokens=st.integers(1, 80), data=st.data())
def test_an_embedder_keeps_order_whatever_its_batches(
    case: Case, start: Any, sentences: list[list[str]], batch_tokens: int, data: Any
) -> None:
    order = data.draw(st.permutations(range(len(sentences))))
    settings: dict[str, Any] = {"state": start, "precision": "float64", "device": "cpu"}
    alone = Embedder(model(case), **settings, batch_tokens=1).embed(sentences)
    embedder = Embedder(model(case), **settings, batch_tokens=batch_tokens)
    found = embedder.embed(sentences[i] for i in order)
    assert len(found) == len(sentences)
    for i, vectors in zip(order, found, strict=True):
        assert vectors.tokens == tuple(sentences[i])
        np.testing.assert_allclose(vectors.layers, alone[i].layers, rtol=0, atol=1e-12)


@STABLE
@given(text=st.text(st.characters(), max_size=40) | st.text("aü \ud800\x00\n.", max_size=40))
def test_any_text_has_vectors(text: str) -> None:
    embedder = Embedder(model(PUBLISHED), precision="float64", device="cpu", split_sentences=True)
    (found,) = embedder.embed([text])
    assert found.offsets is not None and found.layers.shape == (3, len(found.tokens), 12)
    assert np.isfinite(found.layers).all()
    for token, offset in zip(found.tokens, found.offsets, strict=True):
        assert offset is not None and text[offset[0] : offset[1]] == token
