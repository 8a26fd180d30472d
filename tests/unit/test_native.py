"""Our own format: a folder that is what was written, or refused with all that is wrong in it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import elmokit
from elmokit import (
    BiLM,
    BiLMConfig,
    ChecksumMismatch,
    ElmokitError,
    MissingTensor,
    SettingsError,
    ShapeMismatch,
    UnknownFormat,
    WeightBundle,
    WeightsError,
)
from elmokit.files import sha256
from elmokit.model.config import SoftmaxConfig
from elmokit.settings import to_plain
from elmokit.text.vocabulary import Vocabulary
from elmokit.weights.bundle import Provenance

from reference.checkpoints import SHAPES, write_checkpoint

BIAS = "token_layer.projection.bias"
Tensors = dict[str, torch.Tensor]


def with_softmax() -> WeightBundle:
    torch.manual_seed(1)
    config = dataclasses.replace(BiLMConfig.tiny(), softmax=SoftmaxConfig(n_words=5))
    words = Vocabulary(("<S>", "</S>", "<UNK>", "a", "Ärger"))
    provenance = Provenance(
        format="bilm-hdf5",
        source="weights.hdf5",
        sha256="00",
        options="options.json",
        notes=("one", "two"),
        training={"n_epochs": 10, "lr": 0.2},
    )
    tensors = BiLM(config, words).state_dict()
    return WeightBundle(config=config, tensors=tensors, provenance=provenance, vocabulary=words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    elmokit.write_weights(with_softmax(), tmp_path / "model")
    return tmp_path / "model"


def described(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found


def describe(folder: Path, **changes: Any) -> None:
    """Change keys of config.json (`bilm__lstm__dim=3`), and give each file the checksum that it has now."""
    data = described(folder)
    data["files"] = {name: sha256(folder / name) for name in data["files"]}
    for key, value in changes.items():
        *tables, name = key.split("__")
        table = data
        for each in tables:
            table = table[each]
        table[name] = value
    (folder / "config.json").write_text(json.dumps(data))


def tensors_edited(folder: Path, edit: Callable[[Tensors], Any], name: str = "model.safetensors") -> None:
    tensors = load_file(folder / name)
    edit(tensors)
    save_file(tensors, folder / name)
    describe(folder)


def refusal(folder: Path, kind: type[ElmokitError] = WeightsError) -> str:
    with pytest.raises(kind) as caught:
        elmokit.load_bilm(folder, softmax=True)
    assert str(folder) in caught.value.message
    return caught.value.message


# --- what is written -------------------------------------------------------------------------------------------------


def test_everything_comes_back(folder: Path) -> None:
    copy, bundle = elmokit.read_weights(folder), with_softmax()
    assert (copy.config, copy.vocabulary) == (bundle.config, bundle.vocabulary)
    assert copy.provenance.converted_from == to_plain(bundle.provenance)
    assert (copy.provenance.notes, copy.provenance.training) == (bundle.provenance.notes, bundle.provenance.training)
    assert (copy.provenance.format, copy.provenance.source) == ("native", folder.name)
    assert copy.provenance.sha256 == sha256(folder / "model.safetensors")
    assert copy.tensors.keys() == bundle.tensors.keys()
    assert all(torch.equal(copy.tensors[name], tensor) for name, tensor in bundle.tensors.items())


def test_the_folder_says_what_it_is(folder: Path) -> None:
    names = {"config.json", "model.safetensors", "softmax.safetensors", "vocab.txt"}
    assert {path.name for path in folder.iterdir()} == names
    data = described(folder)
    assert (data["model_type"], data["format"], data["format_version"]) == ("elmo", "elmokit", 1)
    assert data["files"].keys() == names - {"config.json"}
    assert all(sha256(folder / name) == checksum for name, checksum in data["files"].items())


def test_the_softmax_is_a_file_of_its_own_that_need_not_be_there(folder: Path) -> None:
    assert load_file(folder / "softmax.safetensors").keys() == {"softmax.weight", "softmax.bias"}
    (folder / "softmax.safetensors").unlink()
    assert elmokit.load_bilm(folder).softmax is None
    assert "softmax.safetensors missing" in refusal(folder)


def test_either_main_file_names_the_model_and_no_other_does(folder: Path) -> None:
    """Any *.safetensors in the folder was taken for model.safetensors: another one was loaded than was named."""
    (folder / "step-500.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    for name in ("config.json", "model.safetensors"):
        assert elmokit.read_weights(folder / name).config == with_softmax().config
    with pytest.raises(UnknownFormat, match=r"step-500\.safetensors"):
        elmokit.read_weights(folder / "step-500.safetensors")


def test_a_writing_that_was_cut_off_never_passes_for_a_model(folder: Path, tmp_path: Path) -> None:
    """config.json is written last: without it there is no model, and with the old one the checksums do not fit."""
    (folder / "config.json").rename(tmp_path / "config.json")
    with pytest.raises(UnknownFormat, match=r"no model in this folder: found model\.safetensors"):
        elmokit.read_weights(folder)
    elmokit.write_weights(elmokit.read_weights("random-tiny"), folder)
    (tmp_path / "config.json").replace(folder / "config.json")
    assert "model.safetensors is not the file that was written" in refusal(folder, ChecksumMismatch)


def test_what_a_larger_model_left_behind_is_not_read(folder: Path) -> None:
    elmokit.write_weights(elmokit.read_weights("random-tiny"), folder)
    assert (folder / "softmax.safetensors").exists() and (folder / "vocab.txt").exists()
    copy = elmokit.read_weights(folder)
    assert copy.config.softmax is None and copy.vocabulary is None


def test_options_are_not_for_a_native_model(folder: Path) -> None:
    (folder / "options.json").write_text("{}")
    with pytest.raises(WeightsError, match="needs no options") as caught:
        elmokit.read_weights((folder / "options.json", folder))
    assert caught.value.hint


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.safetensors", "softmax.safetensors", "vocab.txt"])
def test_one_flipped_bit_is_noticed_in_every_file(name: str, folder: Path) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(content)
    assert f"{name} is not the file that was written" in refusal(folder, ChecksumMismatch)


def test_every_changed_file_is_named_at_once(folder: Path) -> None:
    for name in ("model.safetensors", "vocab.txt"):
        (folder / name).write_bytes(b"")
    message = refusal(folder, ChecksumMismatch)
    assert "2 problems" in message and "model.safetensors" in message and "vocab.txt" in message


@pytest.mark.parametrize("name", ["model.safetensors", "softmax.safetensors", "vocab.txt"])
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    assert f"{name} missing" in refusal(folder)


def header(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode("latin-1")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 4,
        (1 << 62).to_bytes(8, "little") + b"{}",
        b"\xff" * 8 + b"{}",
        header("{["),
        header('{"\xff"'),
        header("[]"),
        header('{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'),
        header('{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,0]}}') + bytes(8),
        header('{"a":{"dtype":"Q9","shape":[1],"data_offsets":[0,4]}}') + bytes(4),
        b"\x89HDF\r\n\x1a\n" + bytes(100),
        b"<!DOCTYPE html>",
    ],
    ids=str,
)
def test_safetensors_that_are_none_are_refused_even_with_a_checksum(content: bytes, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(content)
    describe(folder)
    assert "model.safetensors: damaged" in refusal(folder)


def test_safetensors_cut_off_are_refused_even_with_a_checksum(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    for n_bytes in range(0, len(whole), len(whole) // 40):
        (folder / "model.safetensors").write_bytes(whole[:n_bytes])
        describe(folder)
        assert "damaged" in refusal(folder)


# --- tensors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool", "float8_e4m3fn"])
def test_another_type_is_refused_by_name(dtype: str, folder: Path) -> None:
    """Half and double numbers were let in, and made a model of mixed types; the others failed inside PyTorch."""
    tensors_edited(folder, lambda tensors: tensors.update({BIAS: tensors[BIAS].to(getattr(torch, dtype))}))
    assert f"{BIAS} holds torch.{dtype}, expected torch.float32" in refusal(folder)


def test_missing_extra_and_misshapen_tensors_are_told_at_once(folder: Path) -> None:
    """An extra tensor came out as PyTorch's own RuntimeError."""

    def edit(tensors: Tensors) -> None:
        del tensors["forward_lstm.layers.0.bias"]
        tensors |= {BIAS: torch.zeros(15), "adapter.weight": torch.zeros(2)}

    tensors_edited(folder, edit)
    message = refusal(folder, MissingTensor)
    assert "3 problems" in message
    assert "forward_lstm.layers.0.bias is missing, expected [128]" in message
    assert f"{BIAS} is [15], expected [16]" in message
    assert "adapter.weight is not part of this model" in message


def test_an_extra_tensor_alone_is_refused(folder: Path) -> None:
    tensors_edited(folder, lambda tensors: tensors.update(extra=torch.zeros(2)), name="softmax.safetensors")
    assert "extra is not part of this model" in refusal(folder, ShapeMismatch)
    assert elmokit.load_bilm(folder).softmax is None


def test_numbers_that_are_none_are_refused(folder: Path) -> None:
    tensors_edited(folder, lambda tensors: tensors[BIAS].fill_(torch.nan))
    assert f"{BIAS} holds NaN or infinity" in refusal(folder)


# --- config.json -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("bilm__lstm__dimm", 3, "unknown key 'lstm.dimm' (did you mean 'dim'?)"),
        ("bilm__tokendim", 3, "unknown key 'tokendim' (did you mean 'token_dim'?)"),
        ("bilm__lstm__dim", "32", "lstm.dim: expected a whole number, found '32'"),
        ("bilm__lstm__dim", 32.5, "lstm.dim: expected a whole number"),
        ("bilm__lstm__dim", -1, "lstm"),
        ("bilm__lstm__cell_clip", float("inf"), "lstm.cell_clip: expected a number"),
        ("bilm__lstm__cell_clip", float("nan"), "lstm.cell_clip: expected a number"),
        ("bilm__lstm__cell_clip", 10**400, "lstm.cell_clip: expected a number"),
        ("bilm__lstm__skip", 1, "lstm.skip: expected true or false"),
        ("bilm__characters__filters", [[1, 8, 2]], "characters.filters[0]: expected 2 values"),
        ("bilm__characters__activation", "gelu", "characters.activation: expected one of 'relu', 'tanh'"),
        ("bilm__directions", ["backward", "forward"], "directions"),
        ("bilm__directions", [["forward"]], "directions[0]: expected one of"),
        ("bilm__state", True, "state: expected one of"),
        ("bilm", [], "expected a table"),
        ("provenance", 3, "expected a table"),
        ("provenance__notes", "one", "notes: expected a list"),
    ],
)
def test_a_wrong_value_in_the_config_is_refused_by_key(key: str, value: Any, shown: str, folder: Path) -> None:
    describe(folder, **{key: value})
    assert shown in refusal(folder, SettingsError)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("bilm__lstm__dim", 10**400, "lstm.dim is more than"),
        ("bilm__token_dim", 10**12, "token_dim is more than"),
        ("bilm__lstm__n_layers", 10**9, "lstm.n_layers is more than 100"),
        ("bilm__n_highway", 10**9, "n_highway is more than 100"),
        ("bilm__characters__n_characters", 10**18, "characters.n_characters is more than"),
        ("bilm__characters__max_characters_per_token", 10**12, "max_characters_per_token is more than"),
        ("bilm__characters__filters", [[1, 10**15]], "characters.filters is more than"),
        ("bilm__characters__filters", [[1, 1]] * 101, "the number of characters.filters is more than 100"),
        ("bilm__softmax__n_words", 10**15, "softmax.n_words is more than"),
        ("bilm__words", {"n_words": 10**15, "dim": 10**9}, "words.n_words is more than"),
    ],
)
def test_sizes_beyond_all_bounds_are_refused_before_a_model_is_made(
    key: str, value: Any, shown: str, folder: Path
) -> None:
    """A billion layers were built one by one; a dimension beyond 64 bits came out as PyTorch's TypeError."""
    describe(folder, **{key: value}, bilm__projection=True)
    assert shown in refusal(folder, ShapeMismatch)


def test_a_config_of_another_model_is_refused_by_its_tensors(folder: Path) -> None:
    describe(folder, bilm__directions=["forward"])
    assert "backward_lstm.layers.0.weight_ih is not part of this model" in refusal(folder, ShapeMismatch)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"format": "elmokit\xff"}', "not JSON"),
        (b"[" * 100_000, "nested more than 20 deep"),
        (b'{"format": "elmokit", "bilm": ' + b"[" * 500 + b"]" * 500 + b"}", "nested more than 20 deep"),
        (b'{"format": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[]", "expected an object, found []"),
        (b"null", "expected an object, found null"),
        (b" " * (17 << 20), "too large"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_a_config_that_is_no_object_is_refused(text: bytes, shown: str, folder: Path) -> None:
    (folder / "config.json").write_bytes(text)
    message = refusal(folder)
    assert f"{folder / 'config.json'}: " in message and shown in message


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_another_version_of_the_format_asks_for_an_upgrade(version: Any, folder: Path) -> None:
    describe(folder, format_version=version)
    with pytest.raises(UnknownFormat, match="this elmokit reads 1") as caught:
        elmokit.read_weights(folder)
    assert "pip install --upgrade" in caught.value.hint


@pytest.mark.parametrize("files", [None, [], "x", {}, {"vocab.txt": "0"}, {"../../etc/passwd": "0"}])
def test_a_list_of_files_that_is_none_or_leads_out_is_refused(files: Any, folder: Path) -> None:
    describe(folder, files=files)
    assert "expected their checksums" in refusal(folder)


@pytest.mark.parametrize("content", ["local x = 1; {lstm: x}", "[1, 2]"])
def test_a_strangers_config_json_beside_hdf5_weights_is_let_be(content: str, tmp_path: Path) -> None:
    """AllenNLP's config.json is jsonnet: it made the whole folder unreadable."""
    write_checkpoint(tmp_path, SHAPES[0])
    (tmp_path / "config.json").write_text(content)
    assert elmokit.read_weights(tmp_path).provenance.format == "bilm-hdf5"
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(WeightsError, match=r"config\.json: (not JSON|expected an object)"):
        elmokit.read_weights(tmp_path)


def test_half_a_surrogate_pair_in_the_origin_is_stored(tmp_path: Path) -> None:
    """A file name that is no UTF-8 made the conversion crash at its end."""
    origin = Provenance(format="bilm-hdf5", source="w\udce9.hdf5", training={"note": "\ud800"})
    elmokit.write_weights(dataclasses.replace(with_softmax(), provenance=origin), tmp_path / "model")
    copy = elmokit.read_weights(tmp_path / "model").provenance
    assert copy.converted_from["source"] == "w\\udce9.hdf5" and copy.training == {"note": "\ud800"}
