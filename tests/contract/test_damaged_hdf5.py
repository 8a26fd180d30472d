"""HDF5 files that are damaged or hostile: they load, or one ElmokitError names the file and all that is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import elmokit
from elmokit import ElmokitError, MissingTensor, ShapeMismatch, UnknownFormat, WeightsError
from elmokit.weights.bilm_shape import standard_names

from reference.checkpoints import SHAPES, write_checkpoint

CASES = {case.id: case for case in SHAPES}
CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
Edit = Callable[[h5py.File], Any]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path, CASES["published"])[1]


def edited(weights: Path, edit: Edit) -> Path:
    with h5py.File(weights, "a") as file:
        edit(file)
    return weights


def replaced(name: str, **arguments: Any) -> Edit:
    """Make a dataset anew, with the old numbers unless others or a shape are given."""

    def edit(file: h5py.File) -> None:
        old = file[name][()]
        del file[name]
        content = {} if "shape" in arguments or "data" in arguments else {"data": old}
        file.create_dataset(name, **content, **arguments)

    return edit


def refusal(weights: Path, kind: type[ElmokitError] = WeightsError) -> str:
    with pytest.raises(kind) as caught:
        elmokit.read_weights(weights)
    assert str(weights) in caught.value.message and caught.value.hint
    return caught.value.message


# --- tensors that are missing or of another shape --------------------------------------------------------------------


@pytest.mark.parametrize("case", ["published", "all-plain", "words", "forward-dumped-names"])
def test_any_one_tensor_missing_is_named(case: str, tmp_path: Path) -> None:
    """Without `embedding` it is no longer known to be a model of words, so what is there is told instead."""
    weights = write_checkpoint(tmp_path, CASES[case])[1]
    with h5py.File(weights) as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    whole = weights.read_bytes()
    for name in names:
        weights.write_bytes(whole)
        edited(weights, lambda file, name=name: file.__delitem__(name))  # type: ignore[misc]
        message = refusal(weights, MissingTensor)
        (standard,) = standard_names([name], "")
        assert f"{standard} is missing" in message or name == "embedding"


def test_everything_that_is_wrong_is_told_at_once(weights: Path) -> None:
    def edit(file: h5py.File) -> None:
        del file["char_embed"], file[f"{CELL}/W_0"]
        replaced("CNN_proj/b_proj", data=np.zeros(5, "f4"))(file)
        replaced("CNN/W_cnn_1", data=np.zeros((1, 2, 4, 7), "f4"))(file)

    message = refusal(edited(weights, edit), MissingTensor)
    assert "4 problems" in message
    assert "char_embed is missing, expected [261, 4]" in message
    assert f"{CELL}/W_0 is missing, expected [12, 48]" in message
    assert "CNN_proj/b_proj is [5], expected [6]" in message
    assert "CNN/W_cnn_1 is [1, 2, 4, 7], expected [1, 2, 4, 6]" in message


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("char_embed", (261, 3)),
        ("char_embed", (261,)),
        ("char_embed", (0, 4)),
        ("char_embed", (261, 0)),
        ("char_embed", ()),
        ("CNN/b_cnn_0", (0,)),
        ("CNN_high_1/W_carry", (18, 17)),
        (f"{CELL}/W_0", (48, 12)),
        (f"{CELL}/W_0", (0, 0)),
        (f"{CELL}/B", (1, 48)),
        (f"{CELL}/W_P_0", (13, 6)),
    ],
)
def test_a_wrong_shape_is_told_with_what_was_expected(name: str, shape: tuple[int, ...], weights: Path) -> None:
    message = refusal(edited(weights, replaced(name, data=np.zeros(shape, "f4"))), ShapeMismatch)
    assert f"{name} is {list(shape)}, expected [" in message


def test_a_dataset_without_a_shape_is_refused(weights: Path) -> None:
    assert "char_embed is []" in refusal(edited(weights, replaced("char_embed", data=h5py.Empty("f4"))), ShapeMismatch)


def test_a_group_where_a_dataset_should_be_is_a_missing_tensor(weights: Path) -> None:
    def edit(file: h5py.File) -> None:
        del file["char_embed"]
        file.create_group("char_embed/x")

    assert "char_embed is missing" in refusal(edited(weights, edit), MissingTensor)


def test_word_vectors_alone_are_no_model(tmp_path: Path) -> None:
    """bilm-tf's dump_token_embeddings writes such files, and people take them for the model."""
    with h5py.File(tmp_path / "tokens.hdf5", "w") as file:
        file["embedding"] = np.zeros((4, 6), "f4")
    assert "word vectors alone" in refusal(tmp_path / "tokens.hdf5", MissingTensor)


def test_a_file_without_tensors_is_no_model(tmp_path: Path) -> None:
    h5py.File(tmp_path / "empty.hdf5", "w").close()
    assert "holds no tensors" in refusal(tmp_path / "empty.hdf5", MissingTensor)


def test_not_a_number_in_both_halves_of_a_matrix_is_named_once(weights: Path) -> None:
    """W_0 holds the input's and the recurrent weights: it was named twice."""

    def edit(file: h5py.File) -> None:
        file[f"{CELL}/W_0"][:] = np.nan
        file["char_embed"][3, 1] = np.inf

    message = refusal(edited(weights, edit))
    assert "2 problems" in message and message.count("W_0 holds NaN or infinity") == 1


# --- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8"])
def test_every_float_type_is_read_as_float32(dtype: str, weights: Path) -> None:
    name = "token_layer.projection.bias"
    expected = elmokit.read_weights(weights).tensors[name]
    found = elmokit.read_weights(edited(weights, replaced("CNN_proj/b_proj", dtype=dtype))).tensors[name]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=1e-4 if dtype == "f2" else 0, rtol=0)


def test_a_float64_number_beyond_float32_is_refused(weights: Path) -> None:
    message = refusal(edited(weights, replaced("CNN_proj/b_proj", data=np.full(6, 1e300))))
    assert "CNN_proj/b_proj holds NaN or infinity" in message


@pytest.mark.parametrize(
    "data",
    [
        np.zeros(6, "i4"),
        np.zeros(6, "u1"),
        np.zeros(6, "bool"),
        np.zeros(6, "complex64"),
        np.zeros(6, "S4"),
        np.array(["a"] * 6, dtype=object),
        np.zeros(6, [("re", "f4"), ("im", "f4")]),
    ],
    ids=lambda data: str(data.dtype),
)
def test_other_types_are_refused_by_name(data: Any, weights: Path) -> None:
    message = refusal(edited(weights, replaced("CNN_proj/b_proj", data=data)))
    assert "CNN_proj/b_proj holds" in message and "expected float32" in message


# --- storage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "storage",
    [{"compression": "gzip"}, {"compression": "gzip", "shuffle": True, "fletcher32": True}, {"chunks": (7, 2)}],
    ids=str,
)
def test_compressed_and_chunked_datasets_load(storage: dict[str, Any], weights: Path) -> None:
    expected = elmokit.read_weights(weights).tensors
    found = elmokit.read_weights(edited(weights, replaced("char_embed", **storage))).tensors
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_the_best_compressed_dataset_loads(weights: Path) -> None:
    """All zeros: as far as deflate goes."""
    zeros = np.zeros((3000, 4), "f4")
    edited(weights, replaced("char_embed", data=zeros, compression="gzip", compression_opts=9, chunks=zeros.shape))
    assert elmokit.read_weights(weights).config.characters.n_characters == 3001  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": (261, 1 << 40), "dtype": "f4"},
        {"shape": (261, 1 << 40), "dtype": "f4", "chunks": (1, 1024), "compression": "gzip"},
        {"shape": (1 << 33, 1 << 31), "dtype": "f4", "chunks": (1, 4)},
        {"shape": (261, 4), "dtype": "f4"},
    ],
    ids=["terabytes", "terabytes, compressed", "product overflows", "never written"],
)
def test_numbers_that_are_not_in_the_file_are_refused_before_memory_is_taken(
    arguments: dict[str, Any], weights: Path
) -> None:
    assert "char_embed claims" in refusal(edited(weights, replaced("char_embed", **arguments)))


def test_shapes_beyond_all_bounds_are_refused_before_a_model_is_made_of_them(weights: Path) -> None:
    """Whole numbers are never read, but their shapes were believed: PyTorch's own error came out."""

    def edit(file: h5py.File) -> None:
        for direction in (0, 1):
            for layer in (0, 1):
                for name, shape in (("W_0", (2**33, 2**62)), ("B", (2**62,)), ("W_P_0", (2**60, 2**32))):
                    full = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{name}"
                    replaced(full, shape=shape, dtype="i4", chunks=tuple(1 for _ in shape))(file)

    message = refusal(edited(weights, edit), ShapeMismatch)
    assert "lstm.dim is more than" in message and "token_dim is more than" in message


@pytest.mark.parametrize("name", ["RNN_0/RNN/MultiRNNCell/Cell999/LSTMCell/B", "CNN/b_cnn_999", "CNN_high_999/b_carry"])
def test_a_thousandth_layer_is_refused_in_one_line(name: str, weights: Path) -> None:
    message = refusal(edited(weights, lambda file: file.create_dataset(name, data=np.zeros(48, "f4"))), ShapeMismatch)
    assert "is more than 100" in message and len(message.splitlines()) == 1


# --- what leads out of the file --------------------------------------------------------------------------------------


def other_file(weights: Path) -> Path:
    """Numbers of the right shape, next door."""
    other = weights.with_name("other.bin")
    with h5py.File(other, "w") as file:
        file["char_embed"] = np.zeros((261, 4), "f4")
    return other


def soft_link(file: h5py.File, other: Path) -> None:
    file["char_embed"] = h5py.SoftLink("/CNN/W_cnn_0")


def dangling_link(file: h5py.File, other: Path) -> None:
    file["char_embed"] = h5py.SoftLink("/nowhere")


def external_link(file: h5py.File, other: Path) -> None:
    file["char_embed"] = h5py.ExternalLink(str(other), "/char_embed")


def virtual_dataset(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((261, 4), "f4")
    layout[:] = h5py.VirtualSource(str(other), "char_embed", (261, 4))
    file.create_virtual_dataset("char_embed", layout)


def external_storage(file: h5py.File, other: Path) -> None:
    file.create_dataset("char_embed", (261, 4), "f4", external=[(str(other), 0, 4176)])


@pytest.mark.parametrize("lead", [soft_link, dangling_link, external_link, virtual_dataset, external_storage])
def test_what_leads_elsewhere_is_refused(lead: Callable[[h5py.File, Path], None], weights: Path) -> None:
    other = other_file(weights)

    def edit(file: h5py.File) -> None:
        del file["char_embed"]
        lead(file, other)

    message = refusal(edited(weights, edit))
    assert "char_embed is a link" in message or "char_embed keeps its numbers in another file" in message


def test_groups_that_hold_each_other_end(weights: Path) -> None:
    def edit(file: h5py.File) -> None:
        file["a"], file["b"] = file["/"], file["/"]

    assert "more groups and datasets" in refusal(edited(weights, edit))


def test_a_file_of_many_thousand_objects_is_another_file(weights: Path) -> None:
    def edit(file: h5py.File) -> None:
        for i in range(10_001):
            file.create_group(f"sentence {i}")

    assert "more groups and datasets" in refusal(edited(weights, edit))


# --- names -----------------------------------------------------------------------------------------------------------


def test_what_is_no_part_of_the_model_is_left_out_and_noted(weights: Path) -> None:
    before = elmokit.read_weights(weights)

    def edit(file: h5py.File) -> None:
        file["softmax/W"] = np.zeros((3, 6), "f4")
        file["note"] = "trained in May"

    after = elmokit.read_weights(edited(weights, edit))
    assert after.config == before.config and after.tensors.keys() == before.tensors.keys()
    assert after.provenance.notes == ("not part of a biLM, left out: note, softmax/W",)


@pytest.mark.parametrize("case", ["published", "words", "one-layer-odd-names", "forward-variable-names"])
def test_names_under_lm_are_the_same_model(case: str, tmp_path: Path) -> None:
    """bilm-tf's dump strips the letters l, m and / instead of the prefix; another tool may leave it on."""
    weights = write_checkpoint(tmp_path, CASES[case])[1]
    expected = elmokit.read_weights(weights)
    with h5py.File(weights) as file, h5py.File(tmp_path / "prefixed.hdf5", "w") as prefixed:
        file.copy("/", prefixed, "lm")
    found = elmokit.read_weights(tmp_path / "prefixed.hdf5")
    assert found.config == expected.config
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.tensors.items())
    assert any("other names" in note for note in found.provenance.notes)


def test_two_models_in_one_file_are_refused(weights: Path) -> None:
    message = refusal(edited(weights, lambda file: file.copy("/CNN", file, "lm/CNN")))
    assert "are the same tensor" in message


def test_of_a_folder_the_file_with_an_lstm_is_the_model(weights: Path, tmp_path: Path) -> None:
    """A folder of published fixtures holds the vectors beside the weights; names under lm/ went unrecognised."""
    with h5py.File(tmp_path / "embeddings.hdf5", "w") as file:
        for i in range(12_000):
            file.create_group(str(i))
    assert elmokit.read_weights(tmp_path).provenance.source == "weights.hdf5"
    with h5py.File(weights) as file, h5py.File(tmp_path / "prefixed.hdf5", "w") as prefixed:
        file.copy("/", prefixed, "lm")
    with pytest.raises(WeightsError, match=r"2 models here: prefixed\.hdf5, weights\.hdf5"):
        elmokit.read_weights(tmp_path)
    weights.unlink()
    assert elmokit.read_weights(tmp_path).provenance.source == "prefixed.hdf5"


# --- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_flipped_bytes_load_or_are_told(seed: int, weights: Path) -> None:
    """Never another exception, a hang, or memory for what is not there. Six thousand draws were tried beforehand."""
    rng, whole = np.random.default_rng(seed), weights.read_bytes()
    outcomes: dict[bool, int] = {True: 0, False: 0}
    for _ in range(120):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 6):
            damaged[place] ^= 1 << int(rng.integers(8))
        weights.write_bytes(damaged)
        started = time.monotonic()
        try:
            elmokit.load_bilm(weights)
        except ElmokitError as error:
            assert str(weights) in str(error)
            outcomes[False] += 1
        else:
            outcomes[True] += 1
        assert time.monotonic() - started < 20
    assert min(outcomes.values()) > 10, "the draws must meet numbers and structure alike"


def test_a_signature_further_in_is_still_an_hdf5_file(weights: Path) -> None:
    """HDF5 allows a block of the user's before its own."""
    whole = weights.read_bytes()
    weights.write_bytes(b"#!/bin/sh\n".ljust(512) + whole)
    try:
        bundle = elmokit.read_weights(weights)
    except UnknownFormat:
        pytest.fail("an HDF5 file with a user block was not recognised")
    assert bundle.config.token_dim == 6
