"""The full loss against its definition, the sampled one against the published formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from elmokit.kernels import logits
from elmokit.pretraining import softmax_loss
from elmokit.pretraining.softmax_loss import LogUniformSamples, full_loss, sampled_loss

from kernels import DEVICE, needs_triton

N_WORDS, N_TOKENS, DIM = 300, 50, 8


@pytest.fixture
def problem() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((N_TOKENS, DIM), (N_WORDS, DIM), (N_WORDS,))
    )
    return hidden, weight, bias, torch.randint(0, N_WORDS, (N_TOKENS,), generator=generator)


def numpy_loss_and_gradients(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> list[np.ndarray]:
    """Mean cross entropy and its gradients, written out."""
    h, w, b, t = (x.detach().numpy() for x in (hidden, weight, bias, targets))
    logits = h @ w.T + b
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(t))
    loss = -np.log(p[rows, t]).mean()
    p[rows, t] -= 1
    p /= len(t)
    return [loss, p @ w, p.T @ h, p.sum(axis=0)]


@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_the_full_loss_and_its_gradients_are_those_of_numpy_in_pieces_of_any_size(problem, rows_at_once, monkeypatch):
    monkeypatch.setattr(softmax_loss, "PIECE_BYTES", 4 * N_WORDS * rows_at_once)
    hidden, weight, bias, targets = problem
    loss = full_loss(hidden, weight, bias, targets).mean()
    found = [loss, *torch.autograd.grad(loss, [hidden, weight, bias])]
    for ours, theirs in zip(found, numpy_loss_and_gradients(*problem), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, atol=1e-14)


def test_the_sampled_loss_is_tensorflows_formula(problem):
    """Logits minus log expected counts, a drawn word that is the right one left out, the right word first."""
    hidden, weight, bias, targets = problem
    samples = LogUniformSamples(40, N_WORDS, seed=[1])
    loss = sampled_loss(hidden, weight, bias, targets, samples=samples)

    k = np.arange(N_WORDS)
    p = (np.log(k + 2) - np.log(k + 1)) / np.log(N_WORDS + 1)
    expected = torch.from_numpy(-np.expm1(samples.n_tries * np.log1p(-p)))
    logits = hidden @ weight.t() + bias - torch.log(expected)
    others = logits[:, samples.words].masked_fill(targets[:, None] == samples.words, -torch.inf)
    true = logits.gather(1, targets[:, None])
    reference = F.cross_entropy(torch.cat([true, others], dim=1), torch.zeros_like(targets), reduction="none")

    torch.testing.assert_close(loss, reference, atol=1e-5, rtol=1e-5)
    ours, theirs = (torch.autograd.grad(x.sum(), [hidden, weight, bias]) for x in (loss, reference))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_samples_are_distinct_and_the_same_for_a_seed():
    samples = LogUniformSamples(100, 1000, seed=[3, 1])
    assert len(set(samples.words.tolist())) == 100
    assert torch.equal(samples.words, LogUniformSamples(100, 1000, seed=[3, 1]).words)
    assert not torch.equal(samples.words, LogUniformSamples(100, 1000, seed=[3, 2]).words)
    assert samples.n_tries >= 100


def test_words_are_drawn_as_often_as_expected():
    drawn = np.zeros(50)
    expected = np.zeros(50)
    for seed in range(400):
        samples = LogUniformSamples(10, 50, seed=[seed])
        drawn[samples.words.numpy()] += 1
        expected += samples.log_expected(torch.arange(50)).exp().numpy()
    assert np.abs(drawn - expected).max() < 5 * np.sqrt(expected.max())
    assert expected.sum() == pytest.approx(drawn.sum(), rel=0.03)


def test_the_mean_of_many_samplings_points_where_the_full_loss_does(problem):
    hidden, weight, bias, targets = problem
    full = torch.autograd.grad(full_loss(hidden, weight, bias, targets).mean(), weight)[0]
    total = torch.zeros_like(weight)
    for seed in range(60):
        samples = LogUniformSamples(100, N_WORDS, seed=[seed])
        total += torch.autograd.grad(sampled_loss(hidden, weight, bias, targets, samples=samples).mean(), weight)[0]
    assert F.cosine_similarity(full.flatten(), total.flatten(), dim=0) > 0.95


@needs_triton
@pytest.mark.parametrize("with_hits", [True, False], ids=["hits", "no hits"])
@pytest.mark.parametrize("n_words", [5, 4096, 5000])
def test_the_kernel_does_with_logits_what_pytorch_does(n_words, with_hits, monkeypatch):
    torch.manual_seed(0)
    x, bias, grad = (torch.randn(*shape, device=DEVICE) for shape in ((7, n_words), (n_words,), (7,)))
    hits = torch.randint(-1, n_words, (7,), device=DEVICE) if with_hits else None
    found = []
    for fused in (False, True):
        monkeypatch.setattr(logits, "is_fused", lambda _, fused=fused: fused)
        totals = logits.log_totals(x.clone(), bias, hits)
        found.append((totals, logits.shares(x.clone(), bias, hits, totals, grad)))
    torch.testing.assert_close(found[1], found[0], atol=1e-6, rtol=1e-5)
