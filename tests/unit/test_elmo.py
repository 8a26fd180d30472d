"""ELMo inside a downstream model: one pass and several mixes, frozen or not, and all that PyTorch does to modules."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from elmokit import BiLM, BiLMState, Elmo, ElmoOutput, ScalarMix
from elmokit.errors import DataError, SettingsError
from elmokit.kernels.engine import Engine

from oracle_models import BOTH, PUBLISHED, WORDS, bilm_of
from reference.checkpoints import SENTENCES, Case


def small(**settings: Any) -> Elmo:
    return Elmo(bilm_of(PUBLISHED, seed=0, dtype=torch.float32), **({"dropout": 0.0} | settings))


def close(found: Tensor, expected: Tensor) -> None:
    """As the engine follows the biLM: to some units of the last place of the largest number."""
    bound = (3e-6 if expected.dtype == torch.float32 else 1e-12) * float(expected.detach().abs().max())
    torch.testing.assert_close(found, expected, rtol=0, atol=bound)


def equal(one: ElmoOutput, other: ElmoOutput, *, atol: float = 0.0) -> None:
    torch.testing.assert_close(pytree.tree_leaves(one), pytree.tree_leaves(other), rtol=0, atol=atol)


class Tagger(nn.Module):
    """A downstream model as users write one."""

    def __init__(self, elmo: Elmo) -> None:
        super().__init__()
        self.elmo = elmo
        self.out = nn.Linear(elmo.dim, 3)

    def forward(self, ids: Tensor) -> Tensor:
        output = self.elmo(ids)
        scores: Tensor = self.out(output.mixes[0])
        return scores * output.mask.unsqueeze(2)


# --- one pass, several mixes -----------------------------------------------------------------------------------------


def test_all_mixes_share_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = small(n_mixes=3)
    elmo.bilm.start("settled", 1)
    passes = []
    run = Engine.run
    monkeypatch.setattr(Engine, "run", lambda *given, **named: passes.append(1) or run(*given, **named))
    elmo.bilm.register_forward_hook(lambda *_: passes.append(1))
    output = elmo(elmo.encode(SENTENCES))
    assert len(passes) == 1
    assert len(output.mixes) == 3 and {mix.shape for mix in output.mixes} == {(7, 9, 12)}


def test_each_mix_is_of_the_bilms_layers() -> None:
    mixes = [ScalarMix.top(3), ScalarMix(3, initial=[1.0, 0.0, -1.0]), ScalarMix(3, layer_norm="batch")]
    elmo = small(mixes=mixes)
    batch = elmo.encode(SENTENCES)
    layers = elmo.bilm(batch, elmo.bilm.start("settled", len(SENTENCES)))
    output = elmo(batch)
    assert torch.equal(output.mask, layers.mask)
    close(output.state.cell, layers.state.cell)
    close(output.state.hidden, layers.state.hidden)
    for found, mix in zip(output.mixes, mixes, strict=True):
        close(found, mix(layers.layers, layers.mask))
        assert not found[~output.mask].any()


def test_layer_norm_is_that_of_each_mix() -> None:
    assert [mix.layer_norm for mix in small(n_mixes=2, layer_norm="token").mixes] == ["token", "token"]


def test_mixes_of_another_number_of_layers_are_an_error() -> None:
    elmo = small(mixes=[ScalarMix(2)])
    with pytest.raises(SettingsError, match="for 2 layers, found 3"):
        elmo(elmo.encode(SENTENCES))
    with pytest.raises(SettingsError, match="n_mixes must be positive, found 0"):
        small(n_mixes=0)


def test_dropout_is_on_the_mixes_in_training() -> None:
    elmo = small(dropout=0.5)
    batch = elmo.encode(SENTENCES)
    whole = elmo.eval()(batch).mixes[0]
    torch.manual_seed(0)
    dropped = elmo.train()(batch).mixes[0]
    real = whole != 0
    assert 0.4 < (dropped[real] == 0).float().mean() < 0.6
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])


def test_sentence_boundaries_can_be_kept() -> None:
    dropped, kept = small(), small(keep_sentence_boundaries=True)
    batch = dropped.encode(SENTENCES)
    inner, outer = dropped(batch), kept(batch)
    assert outer.mask.sum(1).tolist() == [len(tokens) + 2 if tokens else 0 for tokens in SENTENCES]
    for i, tokens in enumerate(SENTENCES):
        found = outer.mixes[0][i, 1 : len(tokens) + 1]
        torch.testing.assert_close(found, inner.mixes[0][i, : len(tokens)], rtol=0, atol=0)


@pytest.mark.parametrize("layer_norm", [None, "batch", "token"])
def test_a_batch_of_empty_sentences_with_boundaries_is_zero(layer_norm: Any) -> None:
    elmo = small(keep_sentence_boundaries=True, layer_norm=layer_norm)
    output = elmo(elmo.encode([[], []]))
    assert output.mixes[0].shape == (2, 2, 12) and not output.mixes[0].any()


@pytest.mark.parametrize("keep_sentence_boundaries", [False, True])
@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_a_batch_without_tokens_has_mixes_without_tokens(sentences: Any, keep_sentence_boundaries: bool) -> None:
    """The engine's result could not be given a shape: one dimension of nothing was left to be guessed."""
    elmo = small(keep_sentence_boundaries=keep_sentence_boundaries)
    output = elmo(elmo.encode(sentences))
    assert output.mixes[0].shape == (len(sentences), 2 if keep_sentence_boundaries else 0, 12)
    assert not output.mask.any()


def test_word_vectors_stand_before_each_mix() -> None:
    elmo = small(n_mixes=2)
    batch = elmo.encode([["the", "river"], ["a"]])
    static = torch.randn(2, 2, 5, dtype=torch.float64, requires_grad=True)
    plain, both = elmo(batch), elmo(batch, word_vectors=static)
    for mix, joined in zip(plain.mixes, both.mixes, strict=True):
        assert joined.shape == (2, 2, 17) and joined.dtype == torch.float32
        assert torch.equal(joined[..., :5], static.float()) and torch.equal(joined[..., 5:], mix)
    both.mixes[1].sum().backward()
    assert static.grad is not None, "the caller's vectors may learn"


def test_word_vectors_for_other_tokens_are_an_error() -> None:
    elmo = small(keep_sentence_boundaries=True)
    with pytest.raises(DataError, match=r"for \(2, 2\) \(batch, token\), the biLM's output has \(2, 4\)"):
        elmo(elmo.encode([["the", "river"], ["a"]]), word_vectors=torch.zeros(2, 2, 5))


# --- where a sentence starts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trained", "start"), [("carry", "settled"), ("settled", "settled"), ("zero", "zero")])
def test_a_sentence_starts_as_the_model_was_trained(trained: Any, start: Any) -> None:
    bilm = bilm_of(PUBLISHED, state=trained)
    elmo = Elmo(bilm, dropout=0.0)
    assert elmo.start == start
    batch = elmo.encode(SENTENCES)
    close(elmo(batch).state.cell, bilm(batch, bilm.start(start, len(SENTENCES))).state.cell)
    assert Elmo(bilm, start="zero").start == "zero"


def test_a_state_that_is_passed_in_goes_on() -> None:
    elmo = small()
    batch = elmo.encode([["the", "river"], ["a"]])
    first = elmo(batch)
    second = elmo(batch, first.state)
    close(second.state.cell, elmo.bilm(batch, first.state).state.cell)
    assert not torch.equal(second.mixes[0], first.mixes[0])
    equal(elmo(batch), first)


@pytest.mark.parametrize("train_bilm", [False, True])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_a_state_of_other_rows_is_an_error(train_bilm: bool, n_rows: int) -> None:
    """A frozen biLM's engine took the first rows of too many, or an index out of range of too few."""
    elmo = small(train_bilm=train_bilm)
    with pytest.raises(DataError, match=rf"cells of \(2, 2, {n_rows}, 12\) was given.*\(2, 2, 2, 12\)"):
        elmo(elmo.encode([["the", "river"], ["a"]]), elmo.bilm.start("zero", n_rows))


# --- frozen or trained -----------------------------------------------------------------------------------------------


def test_a_frozen_bilm_learns_nothing() -> None:
    elmo = small()
    elmo.train()
    assert elmo.training and not elmo.bilm.training
    elmo(elmo.encode(SENTENCES)).mixes[0].square().sum().backward()
    assert {name for name, weight in elmo.named_parameters() if weight.requires_grad} == {
        "mixes.0.scores",
        "mixes.0.gamma",
    }
    assert all(weight.grad is None for weight in elmo.bilm.parameters())
    assert all(weight.grad is not None and weight.grad.any() for weight in elmo.mixes.parameters())


def test_a_trained_bilm_learns() -> None:
    elmo = small(train_bilm=True)
    elmo.train()
    assert elmo.bilm.training
    elmo(elmo.encode(SENTENCES)).mixes[0].square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in elmo.parameters())
    with torch.no_grad():
        assert not elmo(elmo.encode(SENTENCES)).mixes[0].requires_grad
    assert not elmo.eval().bilm.training


def test_training_settles_anew_after_each_step() -> None:
    elmo = small(train_bilm=True)
    optimizer = torch.optim.Adam(elmo.parameters(), lr=0.01)
    starts = []
    for _ in range(3):
        optimizer.zero_grad()
        elmo(elmo.encode(SENTENCES)).mixes[0].square().mean().backward()
        optimizer.step()
        starts.append(elmo.bilm.start("settled", 1).cell.clone())
    assert not torch.equal(starts[0], starts[1]) and not torch.equal(starts[1], starts[2])


@pytest.mark.parametrize("train_bilm", [False, True])
def test_an_elmo_may_warm_up_in_inference_mode(train_bilm: bool) -> None:
    """What was computed there must not poison training."""
    elmo = small(train_bilm=train_bilm)
    with torch.inference_mode():
        elmo(elmo.encode(SENTENCES))
    elmo(elmo.encode(SENTENCES)).mixes[0].sum().backward()


# --- what PyTorch does to modules ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [PUBLISHED, WORDS, BOTH], ids=str)
@pytest.mark.parametrize("how", ["deepcopy", "pickle", "save"])
def test_copies_are_the_same_and_apart(case: Case, how: str) -> None:
    elmo = Elmo(bilm_of(case, dtype=torch.float32), n_mixes=2, dropout=0.0)
    batch = elmo.encode(SENTENCES)
    before = elmo(batch)
    if how == "deepcopy":
        again = copy.deepcopy(elmo)
    elif how == "pickle":
        again = pickle.loads(pickle.dumps(elmo))
    else:
        file = io.BytesIO()
        torch.save(elmo, file)
        again = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    equal(again(again.encode(SENTENCES)), before)
    assert not any(weight.requires_grad for weight in again.bilm.parameters())
    with torch.no_grad():
        for weight in again.parameters():
            weight.mul_(0.5)
    equal(elmo(batch), before)
    assert not torch.equal(again(batch).mixes[0], before.mixes[0])


def test_a_state_dict_goes_round() -> None:
    elmo, other = small(n_mixes=2), Elmo(bilm_of(PUBLISHED, seed=2, dtype=torch.float32), n_mixes=2, dropout=0.0)
    with torch.no_grad():
        elmo.mixes[1].scores.copy_(torch.tensor([1.0, 2.0, 3.0]))
    batch = elmo.encode(SENTENCES)
    other(batch)
    other.load_state_dict(elmo.state_dict())
    equal(other(batch), elmo(batch))


def test_a_change_of_any_weight_is_seen() -> None:
    elmo = Elmo(bilm_of(BOTH, seed=0), dropout=0.0, mixes=[ScalarMix.top(3)])
    batch = elmo.encode(SENTENCES)
    for name, weight in elmo.bilm.named_parameters():
        before = elmo(batch).mixes[0]
        with torch.no_grad():
            weight.add_(0.1)
        found = elmo(batch)
        expected = elmo.bilm(batch, elmo.bilm.start("settled", len(SENTENCES)))
        close(found.mixes[0], elmo.mixes[0](expected.layers, expected.mask))
        close(found.state.cell, expected.state.cell)
        assert not torch.equal(found.mixes[0], before), name


def load(elmo: Elmo, *, assign: bool) -> None:
    other = bilm_of(PUBLISHED, seed=2, dtype=torch.float32).requires_grad_(False)
    elmo.bilm.load_state_dict(other.state_dict(), assign=assign)


CHANGES: dict[str, Any] = {
    "loaded": lambda elmo: load(elmo, assign=False),
    "loaded in their place": lambda elmo: load(elmo, assign=True),
    "in float64": lambda elmo: elmo.double(),
    "in bfloat16 and back": lambda elmo: elmo.bfloat16().float(),
    "another parameter": lambda elmo: setattr(
        elmo.bilm.forward_lstm.layers[0], "bias", nn.Parameter(torch.randn(48), requires_grad=False)
    ),
    "another biLM": lambda elmo: setattr(
        elmo, "bilm", bilm_of(PUBLISHED, seed=2, dtype=torch.float32).requires_grad_(False)
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_weights_are_seen(change: Any) -> None:
    """The engine asked whether its own biLM was what it had been, and not whether it was still this one."""
    torch.manual_seed(0)
    elmo = small(mixes=[ScalarMix.top(3)], start="zero")
    batch = elmo.encode(SENTENCES)
    before = elmo(batch).mixes[0]
    change(elmo)
    found, expected = elmo(batch), elmo.bilm(batch)
    assert found.mixes[0].dtype == expected.layers.dtype
    close(found.mixes[0], elmo.mixes[0](expected.layers, expected.mask))
    assert (found.mixes[0] - before).abs().max() > 1e-9


def test_weights_that_stay_keep_their_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine costs is paid once, whatever runs beside it."""
    elmo = small()
    built = []
    init = Engine.__init__
    monkeypatch.setattr(Engine, "__init__", lambda *given, **named: built.append(1) or init(*given, **named))
    for _ in range(3):
        elmo(elmo.encode(SENTENCES)).mixes[0].sum().backward()
        with torch.no_grad():
            elmo.mixes[0].gamma.mul_(0.5)
    assert built == [1]


def test_it_is_a_module_like_any_other() -> None:
    tagger = Tagger(small())
    ids = tagger.elmo.encode(SENTENCES).ids
    tagger.train()
    assert tagger.elmo.training and not tagger.elmo.bilm.training
    trained = [weight for weight in tagger.parameters() if weight.requires_grad]
    assert len(trained) == 4
    before = tagger.eval()(ids)
    found = tagger.double()(ids)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), before, rtol=0, atol=3e-5)
    assert tagger.elmo.bilm.start("settled", 1).cell.dtype == torch.float64
    assert len(tagger.state_dict()) == len(tagger.elmo.state_dict()) + 2
    clone = copy.deepcopy(tagger)
    clone.load_state_dict(tagger.state_dict())
    assert torch.equal(clone(ids), found)


def test_it_moves_with_its_model() -> None:
    tagger = Tagger(small())
    tagger.elmo.bilm.start("settled", 1)
    tagger.to("meta")
    assert tagger.elmo.bilm.device.type == "meta"
    assert all(weight.device.type == "meta" for weight in tagger.parameters())


def test_a_tagger_learns_through_it() -> None:
    torch.manual_seed(0)
    tagger = Tagger(small())
    ids = tagger.elmo.encode([["the", "river", "."], ["a", "bank"]]).ids
    labels = torch.tensor([[0, 1, 2], [0, 1, -100]])
    optimizer = torch.optim.Adam([weight for weight in tagger.parameters() if weight.requires_grad], lr=0.1)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(tagger(ids).flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 5


def test_outputs_are_pytrees() -> None:
    elmo = small(n_mixes=2)
    output = elmo(elmo.encode(SENTENCES))
    leaves, spec = pytree.tree_flatten(output)
    assert len(leaves) == 5
    again = pytree.tree_unflatten(leaves, spec)
    assert isinstance(again, ElmoOutput) and isinstance(again.state, BiLMState)
    equal(again, output)


@pytest.mark.parametrize("train_bilm", [False, True])
def test_autocast_in_bfloat16(train_bilm: bool) -> None:
    elmo = small(train_bilm=train_bilm, layer_norm="token")
    batch = elmo.encode(SENTENCES)
    exact = elmo(batch).mixes[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = elmo(batch)
    assert found.mixes[0].isfinite().all()
    torch.testing.assert_close(found.mixes[0].float(), exact, rtol=0, atol=0.15)
    assert found.state.cell.dtype == torch.float32
    found.mixes[0].float().sum().backward()
    assert elmo.mixes[0].gamma.grad is not None and elmo.mixes[0].gamma.grad.isfinite().all()


def test_in_bfloat16_altogether() -> None:
    elmo = small()
    batch = elmo.encode(SENTENCES)
    exact = elmo(batch).mixes[0]
    torch.testing.assert_close(elmo.bfloat16()(batch).mixes[0].float(), exact, rtol=0, atol=0.15)


UNDER_COMPILE = """
import sys, warnings, torch, elmokit
warnings.simplefilter("error")
torch.set_num_threads(1)
for train_bilm in (False, True):
    elmo = elmokit.Elmo(elmokit.load_bilm("random-tiny"), n_mixes=2, dropout=0.0, train_bilm=train_bilm)
    batch = elmo.encode([["the", "river"], ["a"]])
    torch._dynamo.reset()
    # The first call makes the engine and the settled state: the compiler must look into neither.
    found = torch.compile(elmo, backend=sys.argv[1])(batch)
    expected = elmo(batch)
    torch.testing.assert_close(found.mixes[1], expected.mixes[1], rtol=0, atol=1e-6)
    torch.testing.assert_close(found.state.cell, expected.state.cell, rtol=0, atol=1e-6)
    sum(mix.sum() for mix in found.mixes).backward()
    assert all((weight.grad is not None) == weight.requires_grad for weight in elmo.parameters())
"""


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
def test_under_torch_compile(backend: str) -> None:
    """In a process without the tests' check of signatures, which would be compiled too.

    A settled start breaks the graph: behind the biLM it made PyTorch warn about gradients of what is no leaf.
    """
    command = [sys.executable, "-c", UNDER_COMPILE, backend]
    subprocess.run(command, check=True, timeout=200, env=os.environ | {"OMP_NUM_THREADS": "1"})


def test_a_process_group_of_one() -> None:
    """Distributed training in short; the long test has two processes."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        elmo = small(train_bilm=True)
        batch = elmo.encode(SENTENCES)
        model = nn.parallel.DistributedDataParallel(elmo)
        model(batch).mixes[0].square().sum().backward()
        assert all(weight.grad is not None for weight in elmo.parameters())
        frozen = nn.parallel.DistributedDataParallel(small())
        frozen(batch).mixes[0].square().sum().backward()
    finally:
        dist.destroy_process_group()


TWO_PROCESSES = """
import sys, torch, torch.distributed as dist
import elmokit
import torch.distributed.nn.functional  # imported later, it would keep the group beyond its end (see parallel.py)
rank, store = int(sys.argv[1]), dist.FileStore(sys.argv[2], 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
elmo = elmokit.Elmo(elmokit.load_bilm("random-tiny"), dropout=0.0, train_bilm=True)
model = torch.nn.parallel.DistributedDataParallel(elmo)
optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
sentences = [["the", "river"], ["a", "bank", "."]][rank:rank + 1]
for _ in range(3):
    optimizer.zero_grad()
    model(elmo.encode(sentences)).mixes[0].square().mean().backward()
    optimizer.step()
mine = torch.cat([weight.detach().flatten() for weight in elmo.parameters()])
theirs = [torch.empty_like(mine) for _ in range(2)]
dist.all_gather(theirs, mine)
starts = elmo.bilm.start("settled", 1).cell.flatten()
all_starts = [torch.empty_like(starts) for _ in range(2)]
dist.all_gather(all_starts, starts)
assert torch.equal(*theirs) and torch.equal(*all_starts)
dist.destroy_process_group()
"""


@pytest.mark.long
def test_two_processes_learn_the_same(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", TWO_PROCESSES]
    processes = [subprocess.Popen([*command, str(rank), str(tmp_path / "store")], env=environment) for rank in (0, 1)]
    try:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()


def test_the_tiny_model_needs_no_settings(tiny: BiLM) -> None:
    elmo = Elmo(tiny)
    output = elmo(elmo.encode([["Hello", "world"]]))
    assert output.mixes[0].shape == (1, 2, elmo.dim) and elmo.dim == 32
