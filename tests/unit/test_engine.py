"""The engine against `BiLM.forward`, which says what is right: every shape, every batch, in pieces, in few layers."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from elmokit import BiLM, BiLMConfig, BiLMState
from elmokit.errors import WeightsError
from elmokit.kernels import recurrence
from elmokit.kernels.engine import Engine, Rows
from elmokit.kernels.kept import Kept
from elmokit.kernels.recurrence import PackedLayer
from elmokit.model.batch import with_marks

from oracle_models import BOTH, CASES, PUBLISHED, WORDS, bilm_of
from reference.checkpoints import SENTENCES, Case

BATCHES: dict[str, Any] = {
    "odd sentences": SENTENCES,
    "empty among others": [[], ["a"], [], ["the", "river", "a"], []],
    "all empty": [[], []],
    "one token each": [["a"], ["the"], ["a"]],
    "one sentence": [["the", "river", "bank"]],
    "equally long": [["the", "river"], ["a", "bank"], ["of", "the"]],
    "very unequal": [["a"], ["the", "of", "river"] * 13, ["bank", "."], [], ["end"] * 17],
    "longest first": [["end"] * 9, ["the"] * 5, ["of", "a"], ["."]],
}

some_cases = pytest.mark.parametrize(
    "case", [PUBLISHED, WORDS, BOTH, *(CASES[name] for name in ("backward", "three-layers", "no-projection"))], ids=str
)


def a_state(bilm: BiLM, n_rows: int) -> BiLMState:
    """Another start for each row, so that rows which change places are seen."""
    torch.manual_seed(n_rows)
    zero = bilm.start("zero", n_rows)
    return BiLMState(torch.rand_like(zero.cell) - 0.5, torch.rand_like(zero.hidden) - 0.5)


def close(found: Tensor, expected: Tensor, label: object = "") -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12, msg=lambda message: f"{label}: {message}")


def same_as_the_bilm(engine: Engine, sentences: Any, *, marks: Any, label: object = "") -> None:
    bilm = engine.bilm
    batch, state = bilm.encode(sentences), a_state(bilm, len(sentences))
    with torch.no_grad():
        expected = bilm(batch, state, marks=marks)
    layers, mask, (cell, hidden) = engine.padded(
        batch, with_marks(batch.index), (state.cell, state.hidden), drop_marks=marks == "drop"
    )
    close(layers, expected.layers, label)
    assert torch.equal(mask, expected.mask), label
    close(cell, expected.state.cell, label)
    close(hidden, expected.state.hidden, label)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each call of a layer runs, call by call."""
    found: list[int] = []
    call = PackedLayer.__call__

    def watched(layer: PackedLayer, x: Any, state: Any, packing: Any) -> Any:
        found.append(len(packing.counts))
        return call(layer, x, state, packing)

    monkeypatch.setattr(PackedLayer, "__call__", watched)
    return found


# --- what it gives ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES.values(), ids=str)
@pytest.mark.parametrize("marks", ["drop", "keep"])
def test_it_equals_the_bilm(case: Case, marks: Any) -> None:
    """An odd seed: cells and projections are clipped where there are clips."""
    engine = Engine(bilm_of(case))
    for label, sentences in BATCHES.items():
        same_as_the_bilm(engine, sentences, marks=marks, label=label)


@pytest.mark.parametrize("projection", [True, False], ids=["projection", "no projection"])
def test_clips_bite_in_what_was_compared(projection: bool) -> None:
    """Without this, equal results would say nothing of the clips."""
    tight = CASES["tight-clips" if projection else "no-projection-tight-clips"]
    clipped, free = bilm_of(tight), bilm_of(Case(id="free", shape=replace(tight.shape, cell_clip=None, proj_clip=None)))
    batch = clipped.encode(SENTENCES)
    index, start = with_marks(batch.index), a_state(clipped, len(SENTENCES))
    results = [
        Engine(bilm).padded(batch, index, (start.cell, start.hidden), drop_marks=True) for bilm in (clipped, free)
    ]
    cells = [cell for _, _, (cell, _) in results]
    assert cells[0].abs().max() <= 0.5 + 1e-12 and cells[1].abs().max() > 1
    assert (results[0][0] - results[1][0]).abs().max() > 0.1


@some_cases
@pytest.mark.parametrize("n_bytes", [1, 3_000, 20_000])
def test_pieces_of_steps_are_the_whole(
    case: Case, n_bytes: int, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrence, "GATES_BYTES", n_bytes)
    engine = Engine(bilm_of(case))
    for label, sentences in BATCHES.items():
        same_as_the_bilm(engine, sentences, marks="drop", label=label)
    calls.clear()
    same_as_the_bilm(engine, BATCHES["very unequal"], marks="keep")
    assert sum(calls) == (39 + 2) * case.shape.n_layers, "each step runs once in each layer"
    if n_bytes == 1:
        assert set(calls) == {1}, "a step is never cut"
    else:
        assert len(calls) > case.shape.n_layers


@some_cases
def test_flat_rows_stand_one_behind_the_other(case: Case) -> None:
    bilm = bilm_of(case)
    engine = Engine(bilm)
    for label, sentences in BATCHES.items():
        batch, state = bilm.encode(sentences), a_state(bilm, len(sentences))
        rows = Rows.flat(with_marks(batch.index).numpy())
        assert rows.n_places == sum(map(len, sentences))
        layers, (cell, _) = engine.run(engine.token_vectors(batch), rows, (state.cell, state.hidden))
        with torch.no_grad():
            expected = bilm(batch, state)
        close(layers, expected.layers[:, expected.mask], label)
        close(cell, expected.state.cell, label)


def test_the_start_that_was_given_is_left_alone() -> None:
    bilm = bilm_of(PUBLISHED)
    start = a_state(bilm, len(SENTENCES))
    cell, hidden = start.cell.clone(), start.hidden.clone()
    batch = bilm.encode(SENTENCES)
    Engine(bilm).padded(batch, with_marks(batch.index), (start.cell, start.hidden), drop_marks=True)
    assert torch.equal(start.cell, cell) and torch.equal(start.hidden, hidden)


def test_nothing_of_it_learns() -> None:
    bilm = bilm_of(PUBLISHED)
    batch, start = bilm.encode(SENTENCES), a_state(bilm, len(SENTENCES))
    layers, _, end = Engine(bilm).padded(batch, with_marks(batch.index), (start.cell, start.hidden), drop_marks=True)
    assert not any(x.requires_grad for x in (layers, *end))


# --- the layers that are asked for -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["published", "three-layers", "one-layer", "forward"])
def test_layers_above_those_asked_for_are_not_run(name: str, calls: list[int]) -> None:
    bilm = bilm_of(CASES[name])
    engine, n_all = Engine(bilm), bilm.config.n_layers
    batch, state = bilm.encode(SENTENCES), a_state(bilm, len(SENTENCES))
    rows, start = Rows.flat(with_marks(batch.index).numpy()), (state.cell, state.hidden)
    vectors = engine.token_vectors(batch)
    whole, ends = engine.run(vectors, rows, start)
    for n_layers in range(1, n_all + 1):
        calls.clear()
        found, found_ends = engine.run(vectors, rows, start, n_layers=n_layers)
        assert len(calls) == n_layers - 1
        assert torch.equal(found, whole[:n_layers])
        for found_end, end, begin in zip(found_ends, ends, start, strict=True):
            assert torch.equal(found_end[:, : n_layers - 1], end[:, : n_layers - 1])
            assert torch.equal(found_end[:, n_layers - 1 :], begin[:, n_layers - 1 :]), "a layer that was not run"


def test_a_batch_without_tokens_runs_nothing(calls: list[int]) -> None:
    bilm = bilm_of(PUBLISHED)
    engine, state = Engine(bilm), a_state(bilm, 2)
    batch = bilm.encode([[], []])
    rows = Rows.flat(with_marks(batch.index).numpy())
    layers, (cell, hidden) = engine.run(engine.token_vectors(batch), rows, (state.cell, state.hidden))
    assert layers.shape == (3, 0, 12) and calls == []
    assert torch.equal(cell, state.cell) and torch.equal(hidden, state.hidden)


# --- where things stand ----------------------------------------------------------------------------------------------


def test_places_of_padded_and_flat_rows() -> None:
    index = np.array([[1, 7, 8, 2], [0, 0, 0, 0], [1, 7, 2, 0]])
    dropped, kept = Rows.padded(index, drop_marks=True), Rows.padded(index, drop_marks=False)
    assert dropped.places.tolist() == [[-1, 0, 1, -1], [-1] * 4, [-1, 4, -1, -1]] and dropped.n_places == 6
    assert kept.places.tolist() == [[0, 1, 2, 3], [-1] * 4, [8, 9, 10, -1]] and kept.n_places == 12
    flat = Rows.flat(index)
    assert flat.places.tolist() == [[-1, 0, 1, -1], [-1] * 4, [-1, 2, -1, -1]] and flat.n_places == 3


# --- precision -------------------------------------------------------------------------------------------------------


def test_in_bfloat16_each_layer_points_the_same_way() -> None:
    torch.manual_seed(0)
    bilm = BiLM(BiLMConfig.small()).eval()
    batch = bilm.encode([["The", "river", "bank", "flooded", "."], ["a"], ["Ärger", "am", "Fluss"]])
    engine = Engine(bilm, dtype=torch.bfloat16)
    zero = bilm.start("zero", 3)
    layers, mask, (cell, hidden) = engine.padded(
        batch, with_marks(batch.index), (zero.cell, zero.hidden), drop_marks=True
    )
    with torch.no_grad():
        expected = bilm(batch)
    assert layers.dtype == torch.bfloat16 and (cell.dtype, hidden.dtype) == (torch.float32, torch.float32)
    for found, exact in zip(layers.float(), expected.layers, strict=True):
        cosine = torch.nn.functional.cosine_similarity(found[mask], exact[mask], dim=1)
        assert cosine.min() >= 0.999
    torch.testing.assert_close(cell, expected.state.cell, rtol=0, atol=0.05 * float(expected.state.cell.abs().max()))
    assert all(weight.dtype == torch.float32 for weight in bilm.parameters()), "the biLM is not the engine's to change"


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_the_callers_autocast_changes_nothing(half: torch.dtype) -> None:
    """Gates in the caller's bfloat16 met weights in float32, and were refused."""
    bilm = bilm_of(PUBLISHED, seed=0, dtype=torch.float32)
    batch, start = bilm.encode(SENTENCES), bilm.start("zero", len(SENTENCES))
    engine = Engine(bilm)
    given = batch, with_marks(batch.index), (start.cell, start.hidden)
    expected, _, _ = engine.padded(*given, drop_marks=True)
    with torch.autocast("cpu", dtype=half):
        found, _, _ = engine.padded(*given, drop_marks=True)
    assert torch.equal(found, expected)


def test_one_that_was_built_in_inference_mode_is_good_outside() -> None:
    bilm = bilm_of(PUBLISHED)
    batch, start = bilm.encode(SENTENCES), bilm.start("zero", len(SENTENCES))
    given = batch, with_marks(batch.index), (start.cell, start.hidden)
    with torch.inference_mode():
        engine = Engine(bilm)
        engine.padded(*given, drop_marks=True)
    layers, _, _ = engine.padded(*given, drop_marks=True)
    assert not layers.is_inference(), "it could not be kept for a backward pass"
    (layers * torch.ones((), requires_grad=True)).sum().backward()


# --- weights ---------------------------------------------------------------------------------------------------------


def test_it_is_kept_until_a_weight_changes() -> None:
    bilm = bilm_of(PUBLISHED)
    kept = Kept[Engine]()
    for name, weight in bilm.named_parameters():
        engine = kept.get(bilm, lambda: Engine(bilm))
        assert kept.get(bilm, lambda: Engine(bilm)) is engine
        with torch.no_grad():
            weight.mul_(0.5)
        assert kept.get(bilm, lambda: Engine(bilm)) is not engine, name


def test_a_weight_in_the_place_of_a_freed_one_is_another() -> None:
    """A second new weight often lies where the first lay, at the same address and as new."""
    bilm = bilm_of(PUBLISHED)
    layer = bilm.forward_lstm.layers[0]
    kept = Kept[float]()
    for i in range(10):
        for value in (0.0, float(i)):
            layer.bias = torch.nn.Parameter(torch.full((48,), value, dtype=torch.float64))
        assert kept.get(bilm, lambda: layer.bias[0].item()) == i


def test_one_that_could_not_be_made_is_made_when_it_can_be() -> None:
    bilm = bilm_of(PUBLISHED)
    kept, bias = Kept[Engine](), bilm.token_layer.projection.bias
    kept.get(bilm, lambda: Engine(bilm))
    with torch.no_grad():
        bias[0] = float("nan")
    for _ in range(2):
        with pytest.raises(WeightsError):
            kept.get(bilm, lambda: Engine(bilm))
    with torch.no_grad():
        bias[0] = 0
    kept.get(bilm, lambda: Engine(bilm))


def test_a_copy_keeps_nothing_of_anothers() -> None:
    bilm = bilm_of(PUBLISHED)
    kept = Kept[Engine]()
    engine = kept.get(bilm, lambda: Engine(bilm))
    for again in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert again.get(bilm, lambda: Engine(bilm)) is not engine


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_named_and_counted(wrong: float) -> None:
    bilm = bilm_of(PUBLISHED)
    with torch.no_grad():
        bilm.token_layer.projection.bias[2] = wrong
        bilm.backward_lstm.layers[1].weight_hh[:, 3] = wrong
    with pytest.raises(WeightsError) as error:
        Engine(bilm)
    assert error.value.message == (
        "weights that are not finite numbers: "
        "token_layer.projection.bias has 1, backward_lstm.layers.1.weight_hh has 48"
    )
    assert error.value.hint


def test_numbers_that_only_half_the_bits_cannot_hold_are_fine() -> None:
    """They are checked as they were stored: the largest of float32 is finite."""
    bilm = bilm_of(PUBLISHED, dtype=torch.float32)
    with torch.no_grad():
        bilm.token_layer.projection.bias[0] = torch.finfo(torch.float32).max
    Engine(bilm)


def test_a_fused_optimizer_changes_weights_too() -> None:
    """PyTorch does not count what a fused optimizer changes: vectors stayed those of the old weights."""
    module, kept = torch.nn.Linear(2, 2), Kept[object]()
    first = kept.get(module, object)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.5, fused=True)
    for weight in module.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert kept.get(module, object) is not first


def test_one_of_each_kind_is_kept_until_a_weight_changes() -> None:
    """Autocast on and off in turn made a new engine at every call."""
    module, kept = torch.nn.Linear(2, 2), Kept[object]()
    made = {kind: kept.get(module, object, kind=kind) for kind in (None, torch.bfloat16)}
    assert made[None] is not made[torch.bfloat16]
    assert all(kept.get(module, object, kind=kind) is thing for kind, thing in made.items())
    with torch.no_grad():
        module.weight.add_(1)
    assert all(kept.get(module, object, kind=kind) is not thing for kind, thing in made.items())
