"""What every weight format promises. A line in the FORMATS table is all that a new one needs to be held to it."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

import elmokit
from elmokit import (
    BiLM,
    BiLMConfig,
    MissingTensor,
    SettingsError,
    ShapeMismatch,
    UnknownFormat,
    WeightBundle,
    WeightsError,
)
from elmokit.model.config import SoftmaxConfig
from elmokit.text.config import TextConfig
from elmokit.text.vocabulary import Vocabulary
from elmokit.weights.bundle import Provenance
from elmokit.weights.formats import FORMATS, get_format
from elmokit.weights.verify import verify_copy

from oracle_models import BOTH, config_of
from reference.checkpoints import SHAPES, Case, write_checkpoint

every_format = pytest.mark.parametrize("format", FORMATS)
every_shape = pytest.mark.parametrize("case", SHAPES, ids=str)
CASES = {case.id: case for case in SHAPES}


@cache
def bundle_of(name: str) -> WeightBundle:
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), CASES[name], seed=1)
        return elmokit.read_weights(folder)


def with_tensor(bundle: WeightBundle, name: str, tensor: torch.Tensor) -> WeightBundle:
    return dataclasses.replace(bundle, tensors={**bundle.tensors, name: tensor})


def assert_same(copy: WeightBundle, bundle: WeightBundle) -> None:
    assert copy.config == bundle.config
    assert copy.vocabulary == bundle.vocabulary
    assert copy.tensors.keys() == bundle.tensors.keys()
    for name, tensor in bundle.tensors.items():
        # As whole numbers: -0.0 is not 0.0 here.
        assert torch.equal(copy.tensors[name].view(torch.int32), tensor.view(torch.int32)), name


@every_format
@every_shape
def test_every_shape_comes_back_bit_for_bit(format: str, case: Case, tmp_path: Path) -> None:
    elmokit.write_weights(bundle_of(case.id), tmp_path / "copy", format=format)
    assert_same(elmokit.read_weights(tmp_path / "copy"), bundle_of(case.id))


@every_format
def test_files_are_returned_main_one_first_and_nothing_else_is_left(format: str, tmp_path: Path) -> None:
    bundle = bundle_of("words")
    files = elmokit.write_weights(bundle, tmp_path / "new" / "copy", format=format)
    assert sorted(files) == sorted((tmp_path / "new" / "copy").iterdir())
    assert_same(elmokit.read_weights(files[0]), bundle)


@every_format
def test_writing_again_replaces_the_model(format: str, tmp_path: Path) -> None:
    """The larger model's files are in the way: its words, its third layer."""
    for name in ("words", "three-layers", "no-projection-at-all", "words-no-projection"):
        elmokit.write_weights(bundle_of(name), tmp_path, format=format)
        assert_same(elmokit.read_weights(tmp_path), bundle_of(name))


@every_format
def test_a_copy_of_a_copy_is_the_same_and_remembers_nothing_unusual(format: str, tmp_path: Path) -> None:
    elmokit.write_weights(bundle_of("published"), tmp_path / "1", format=format)
    elmokit.write_weights(elmokit.read_weights(tmp_path / "1"), tmp_path / "2", format=format)
    again = elmokit.read_weights(tmp_path / "2")
    assert_same(again, bundle_of("published"))
    assert again.provenance.notes == ()


@every_format
def test_extreme_numbers_come_back(format: str, tmp_path: Path) -> None:
    name, extremes = "token_layer.projection.bias", torch.tensor([-0.0, 1e-45, 3.4e38, -3.4e38, 1.17e-38, 1 / 3])
    bundle = with_tensor(bundle_of("published"), name, extremes)
    elmokit.write_weights(bundle, tmp_path, format=format)
    assert_same(elmokit.read_weights(tmp_path), bundle)


@every_format
def test_what_the_tensors_do_not_say_comes_back(format: str, tmp_path: Path) -> None:
    bundle = bundle_of("published")
    lstm = dataclasses.replace(bundle.config.lstm, cell_clip=None, proj_clip=0.1, skip=False)
    text = TextConfig(tokenizer="characters", language="zh", split_sentences=True)
    config = dataclasses.replace(bundle.config, lstm=lstm, state="zero", text=text)
    elmokit.write_weights(dataclasses.replace(bundle, config=config), tmp_path, format=format)
    assert elmokit.read_weights(tmp_path).config == config


@every_format
def test_checksums_are_not_needed_for_loading(format: str, tmp_path: Path) -> None:
    elmokit.write_weights(bundle_of("published"), tmp_path, format=format)
    assert_same(elmokit.read_weights(tmp_path, checksum=False), bundle_of("published"))


@every_format
def test_a_softmax_is_kept_or_left_out_whole(format: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = dataclasses.replace(BiLMConfig.tiny(), softmax=SoftmaxConfig(n_words=4))
    words = Vocabulary(("<S>", "</S>", "<UNK>", "a"))
    bundle = WeightBundle(
        config=config,
        tensors=BiLM(config, words).state_dict(),
        provenance=Provenance(format="native", source="made"),
        vocabulary=words,
    )
    elmokit.write_weights(bundle, tmp_path, format=format)
    copy = elmokit.read_weights(tmp_path)
    if copy.config.softmax is not None:
        assert_same(copy, bundle)
    without = elmokit.read_weights(tmp_path, softmax=False)
    assert without.config == bundle.without_softmax().config
    assert without.tensors.keys() == bundle.without_softmax().tensors.keys()


@every_format
def test_a_forget_bias_kept_elsewhere_gives_the_same_vectors(format: str, tmp_path: Path) -> None:
    bundle = bundle_of("published")
    config = dataclasses.replace(bundle.config, lstm=dataclasses.replace(bundle.config.lstm, forget_bias=0.0))
    elmokit.write_weights(dataclasses.replace(bundle, config=config), tmp_path, format=format)
    before = dataclasses.replace(bundle, config=config).build()
    after = elmokit.load_bilm(tmp_path)
    batch = before.encode([["The", "river", "."], ["a"]])
    torch.testing.assert_close(after(batch).layers, before(batch).layers, atol=1e-6, rtol=0)


@every_format
def test_a_model_in_float64_is_written_in_float32(format: str, tmp_path: Path) -> None:
    bundle = bundle_of("published")
    doubled = dataclasses.replace(bundle, tensors={name: t.double() for name, t in bundle.tensors.items()})
    elmokit.write_weights(doubled, tmp_path, format=format)
    assert_same(elmokit.read_weights(tmp_path), bundle)


@every_format
def test_words_beside_characters_are_kept_or_refused(format: str, tmp_path: Path) -> None:
    config = config_of(BOTH)
    provenance = Provenance(format="native", source="made")
    bundle = WeightBundle(config=config, tensors=BiLM(config).state_dict(), provenance=provenance)
    try:
        elmokit.write_weights(bundle, tmp_path / "copy", format=format)
    except WeightsError as error:
        assert "words beside characters" in error.message and error.hint
        assert not (tmp_path / "copy").exists()
    else:
        assert_same(elmokit.read_weights(tmp_path / "copy"), bundle)


# --- refusals --------------------------------------------------------------------------------------------------------


@every_format
def test_an_incomplete_model_is_not_written_and_everything_wrong_is_named(format: str, tmp_path: Path) -> None:
    bundle = with_tensor(bundle_of("published"), "token_layer.projection.bias", torch.zeros(7))
    tensors = {name: t for name, t in bundle.tensors.items() if name != "backward_lstm.layers.1.bias"}
    with pytest.raises(MissingTensor) as caught:
        elmokit.write_weights(dataclasses.replace(bundle, tensors=tensors), tmp_path / "copy", format=format)
    assert "token_layer.projection.bias is [7], expected [6]" in caught.value.message
    assert "backward_lstm.layers.1.bias is missing, expected [48]" in caught.value.message
    assert not (tmp_path / "copy").exists()


@every_format
def test_tensors_of_other_shapes_are_refused_with_file_found_and_expected(format: str, tmp_path: Path) -> None:
    bundle = with_tensor(bundle_of("published"), "forward_lstm.layers.0.weight_hr", torch.zeros(6, 13))
    bundle = with_tensor(bundle, "token_layer.projection.bias", torch.zeros(5))
    get_format(format).write(bundle, tmp_path / "copy")
    with pytest.raises(ShapeMismatch) as caught:
        elmokit.read_weights(tmp_path / "copy")
    message = caught.value.message
    assert str(tmp_path / "copy") in message and "2 problems" in message
    assert "is [5], expected [6]" in message
    assert "13" in message and "12" in message
    assert caught.value.hint


@every_format
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_numbers_are_refused_by_name(format: str, value: float, tmp_path: Path) -> None:
    bundle = with_tensor(bundle_of("published"), "token_layer.projection.bias", torch.tensor([0, value, 0, 0, 0, 0]))
    bias = bundle.tensors["forward_lstm.layers.0.bias"].clone()
    bias[-1] = value
    elmokit.write_weights(with_tensor(bundle, "forward_lstm.layers.0.bias", bias), tmp_path, format=format)
    with pytest.raises(WeightsError, match="2 problems") as caught:
        elmokit.read_weights(tmp_path)
    assert str(tmp_path) in caught.value.message
    assert caught.value.message.count("holds NaN or infinity") == 2


@every_format
def test_a_path_that_cannot_be_written_is_told(format: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WeightsError, match="file: cannot be written") as caught:
        elmokit.write_weights(bundle_of("published"), tmp_path / "file", format=format)
    assert caught.value.hint
    assert (tmp_path / "file").read_text() == "in the way"


@every_format
def test_cutting_the_main_file_off_anywhere_is_told(format: str, tmp_path: Path) -> None:
    main = elmokit.write_weights(bundle_of("published"), tmp_path, format=format)[0]
    whole = main.read_bytes()
    for n_bytes in {0, 1, 7, 8, 9, 100, *range(0, len(whole), len(whole) // 60), len(whole) - 1}:
        main.write_bytes(whole[:n_bytes])
        with pytest.raises(WeightsError) as caught:
            elmokit.read_weights(main)
        assert str(tmp_path) in caught.value.message and caught.value.hint


@every_format
def test_empty_and_foreign_folders_are_nobodys(format: str, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert get_format(format).weights_file(tmp_path) is None
    assert get_format(format).weights_file(tmp_path / "notes.md") is None


def test_an_unknown_format_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"'bilm-hdf' \(did you mean 'bilm-hdf5'\?\)") as caught:
        elmokit.write_weights(bundle_of("published"), tmp_path, format="bilm-hdf")
    assert all(name in caught.value.hint for name in FORMATS)


@every_format
@pytest.mark.parametrize("name", ["published", "words"])
def test_a_format_knows_which_files_it_will_write(format: str, name: str, tmp_path: Path) -> None:
    bundle = bundle_of(name)
    expected = get_format(format).target_files(bundle, tmp_path / "copy")
    assert elmokit.write_weights(bundle, tmp_path / "copy", format=format) == expected


@every_format
def test_a_folder_in_the_place_of_a_file_is_refused_before_anything_is_written(format: str, tmp_path: Path) -> None:
    last = get_format(format).target_files(bundle_of("words"), tmp_path)[-1]
    last.mkdir()
    with pytest.raises(WeightsError, match="a folder stands where a file would be"):
        elmokit.write_weights(bundle_of("words"), tmp_path, format=format)
    assert list(tmp_path.iterdir()) == [last]


@pytest.mark.parametrize("source", [None, 3, (), "", b"x", ["a"], ("a",), ("a", "b", "c"), (None, "a")], ids=repr)
def test_what_names_no_model_is_refused(source: Any) -> None:
    with pytest.raises(SettingsError, match="no model can be read from"):
        elmokit.read_weights(source)


def test_a_model_in_memory_is_not_a_source() -> None:
    with pytest.raises(SettingsError, match="read from BiLM") as caught:
        elmokit.load(elmokit.load_bilm("random-tiny"))  # type: ignore[arg-type]
    assert "Embedder(bilm)" in caught.value.hint


def test_a_bundled_model_may_be_named_by_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert elmokit.read_weights(Path("random-tiny")).provenance.source == "random-tiny"
    Path("random-tiny").mkdir()
    with pytest.raises(UnknownFormat, match="no model in this folder"):
        elmokit.read_weights(Path("random-tiny"))


def test_verifying_says_what_was_compared(tmp_path: Path) -> None:
    """It claimed three sentences also where it had compared none."""
    bundle = bundle_of("words")
    for vocabulary, said in ((bundle.vocabulary, "vectors of 2 sentences equal"), (None, "vectors were not compared")):
        held = dataclasses.replace(bundle, vocabulary=vocabulary)
        files = elmokit.write_weights(held, tmp_path / said)
        assert said in verify_copy(held, files[0])
