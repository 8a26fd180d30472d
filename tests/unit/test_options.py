"""What the tensors cannot tell: given, found beside the weights by content, or the published defaults."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import elmokit
from elmokit import BiLMConfig, ElmokitError, ShapeMismatch, WeightsError
from elmokit.weights.options import Options, options_beside, read_options, to_options

from reference.checkpoints import SHAPES, options, write_checkpoint

CASES = {case.id: case for case in SHAPES}
TIGHT = CASES["tight-clips"]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Weights with no options beside them."""
    given, weights = write_checkpoint(tmp_path, TIGHT)
    given.unlink()
    return weights


def content(**changes: Any) -> dict[str, Any]:
    """The options of the weights; `lstm__dim=3` changes one key, `...` removes it."""
    data = options(TIGHT)
    for key, value in changes.items():
        *tables, name = key.split("__")
        table = data
        for each in tables:
            table = table[each]
        table.pop(name, None) if value is ... else table.update({name: value})
    return data


def beside(weights: Path, name: str, **changes: Any) -> Path:
    path = weights.with_name(name)
    path.write_text(json.dumps(content(**changes)))
    return path


def refusal(weights: Path, given: Path, kind: type[ElmokitError] = WeightsError) -> str:
    """The same whether the file is given or found."""
    with pytest.raises(kind) as found:
        elmokit.read_weights(weights)
    with pytest.raises(kind) as caught:
        elmokit.read_weights((given, weights))
    assert caught.value.hint and found.value.message == caught.value.message
    return caught.value.message


# --- where they come from --------------------------------------------------------------------------------------------


def test_without_any_file_the_published_defaults_hold_and_are_said(weights: Path) -> None:
    bundle = elmokit.read_weights(weights)
    lstm, characters = bundle.config.lstm, bundle.config.characters
    assert (lstm.cell_clip, lstm.proj_clip, lstm.skip) == (3.0, 3.0, True)
    assert characters is not None
    assert (characters.activation, characters.max_characters_per_token) == ("relu", 50)
    assert bundle.config.state == "carry"
    assert "published defaults" in bundle.provenance.options and "no options file" in bundle.provenance.options


def test_given_options_decide_and_are_said(weights: Path, tmp_path: Path) -> None:
    beside(weights, "options.json", lstm__cell_clip=7)
    given = tmp_path / "elsewhere" / "mine.txt"
    given.parent.mkdir()
    given.write_text(json.dumps(content(lstm__cell_clip=0.25)))
    bundle = elmokit.read_weights((given, weights))
    assert bundle.config.lstm.cell_clip == 0.25
    assert bundle.provenance.options == "mine.txt"


@pytest.mark.parametrize("name", ["options.json", "elmo_2x4096_512_2048cnn_2xhighway_options.json", "about.json"])
def test_options_beside_are_found_whatever_they_are_called(name: str, weights: Path) -> None:
    beside(weights, name)
    weights.with_name("labels.json").write_text('["B-PER", "I-PER"]')
    weights.with_name("train.json").write_text('{"lstm": 3}')
    weights.with_name("broken.json").write_text('{"lstm": ')
    bundle = elmokit.read_weights(weights.parent)
    assert (bundle.config.lstm.cell_clip, bundle.config.lstm.proj_clip) == (0.5, 0.25)
    assert bundle.provenance.options == name


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"lstm": 3}', '{"lstm": {}}', "{", "<html>", "\xff"])
def test_a_file_called_options_that_is_none_is_refused_not_skipped(text: str, weights: Path) -> None:
    """Skipped, the defaults would hold: other clips give other vectors, and nothing would be said."""
    given = weights.with_name("my_Options.json")
    given.write_bytes(text.encode("latin-1"))
    assert str(given) in refusal(weights, given)


def test_a_folder_called_options_is_refused(weights: Path) -> None:
    given = weights.with_name("options.json")
    given.mkdir()
    assert f"{given}: cannot be read" in refusal(weights, given)


def test_a_missing_file_of_options_is_refused(weights: Path) -> None:
    with pytest.raises(WeightsError, match=r"nowhere\.json: cannot be read"):
        elmokit.read_weights((weights.with_name("nowhere.json"), weights))


def test_candidates_that_agree_are_one(weights: Path) -> None:
    """The files of training (261) and inference (262) stand side by side in published folders."""
    beside(weights, "options.json", char_cnn__n_characters=262)
    beside(weights, "options_train.json", char_cnn__n_characters=261, n_epochs=10)
    assert elmokit.read_weights(weights).config.lstm.cell_clip == 0.5


def test_candidates_that_differ_are_refused_by_name(weights: Path) -> None:
    beside(weights, "a.json")
    beside(weights, "b.json", lstm__use_skip_connections=False)
    with pytest.raises(WeightsError, match=r"a\.json, b\.json all fit and differ") as caught:
        elmokit.read_weights(weights)
    assert "(options.json, weights.hdf5)" in caught.value.hint
    assert not elmokit.read_weights((weights.with_name("b.json"), weights)).config.lstm.skip


def test_of_candidates_the_one_that_fits_the_tensors_is_taken(weights: Path) -> None:
    beside(weights, "another_options.json", lstm__dim=4096, lstm__cell_clip=3)
    beside(weights, "options.json")
    bundle = elmokit.read_weights(weights)
    assert (bundle.config.lstm.cell_clip, bundle.provenance.options) == (0.5, "options.json")
    assert [each.origin for each in options_beside(weights)] == ["another_options.json", "options.json"]


# --- against the tensors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("lstm__dim", 13, "lstm.dim is 13 in options.json, 12 in the tensors"),
        ("lstm__projection_dim", 7, "lstm.projection_dim is 7 in options.json, 6 in the tensors"),
        ("lstm__n_layers", 3, "lstm.n_layers is 3 in options.json, 2 in the tensors"),
        ("lstm__n_layers", ..., "lstm.n_layers is 1 in options.json, 2 in the tensors"),
        ("lstm__dim", 10**400, "lstm.dim is 1000"),
        ("char_cnn__filters", [[1, 4]], "char_cnn.filters is [[1, 4]] in options.json, [[1, 4], [2, 6], [3, 8]]"),
        ("char_cnn__filters", [1, [2]], "char_cnn.filters is [1, [2]]"),
        ("char_cnn__n_highway", 1, "char_cnn.n_highway is 1 in options.json, 2 in the tensors"),
        ("char_cnn__n_highway", ..., "char_cnn.n_highway is 0 in options.json, 2 in the tensors"),
        ("char_cnn__embedding__dim", 16, "char_cnn.embedding.dim is 16 in options.json, 4 in the tensors"),
        ("bidirectional", False, "bidirectional is False in options.json, True in the tensors"),
        ("bidirectional", "yes", "bidirectional is yes in options.json"),
        ("char_cnn", ..., "char_cnn is False in options.json, True in the tensors"),
    ],
)
def test_options_of_another_model_are_refused_by_key(key: str, value: Any, shown: str, weights: Path) -> None:
    given = beside(weights, "options.json", **{key: value})
    for source in (weights, (given, weights)):
        with pytest.raises(ShapeMismatch) as caught:
            elmokit.read_weights(source)
        assert str(weights) in caught.value.message and shown in caught.value.message and caught.value.hint


def test_all_differences_are_told_at_once(weights: Path) -> None:
    given = beside(weights, "options.json", lstm__dim=4096, lstm__projection_dim=512, char_cnn__n_highway=3)
    with pytest.raises(ShapeMismatch, match="3 problems"):
        elmokit.read_weights((given, weights))


@pytest.mark.parametrize("n_characters", [261, 262, 0, None, "many"])
def test_the_number_of_characters_is_never_believed(n_characters: Any, weights: Path) -> None:
    """261 in training and 262 at inference, with the same weights."""
    beside(weights, "options.json", char_cnn__n_characters=n_characters)
    assert elmokit.read_weights(weights).config.characters.n_characters == 262  # type: ignore[union-attr]


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["cell_clip", "proj_clip"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -3, 0, 0.0, True, False, "3", [], {}, 10**400, 1e39])
def test_a_clip_is_a_positive_number(key: str, value: Any, weights: Path) -> None:
    given = beside(weights, "options.json", **{f"lstm__{key}": value})
    assert f"lstm.{key} is" in refusal(weights, given)


def test_a_clip_too_large_for_json_is_no_number(weights: Path) -> None:
    given = weights.with_name("options.json")
    given.write_text(json.dumps(content(lstm__cell_clip="@")).replace('"@"', "1e400"))
    assert "lstm.cell_clip is inf" in refusal(weights, given)


@pytest.mark.parametrize("value", [..., None])
def test_an_absent_clip_is_no_clip(value: Any, weights: Path) -> None:
    beside(weights, "options.json", lstm__cell_clip=value, lstm__proj_clip=value)
    bundle = elmokit.read_weights(weights)
    assert bundle.config.lstm.cell_clip is None and bundle.config.lstm.proj_clip is None
    assert {"cells are not clipped", "projections are not clipped"} <= set(bundle.provenance.notes)


def test_an_absent_skip_connection_is_none(weights: Path) -> None:
    """As in bilm-tf, and unlike the default where no file says anything."""
    beside(weights, "options.json", lstm__use_skip_connections=...)
    assert not elmokit.read_weights(weights).config.lstm.skip


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("lstm__use_skip_connections", 1, "lstm.use_skip_connections is 1, expected bool"),
        ("lstm__dim", "12", "lstm.dim is '12', expected int"),
        ("lstm__n_layers", True, "lstm.n_layers is True, expected int"),
        ("char_cnn", [], "char_cnn is [], expected an object"),
        ("char_cnn__activation", "gelu", "char_cnn.activation is 'gelu', expected one of relu, tanh"),
        ("char_cnn__activation", ["relu"], "char_cnn.activation is ['relu']"),
        ("char_cnn__filters", "1,2", "char_cnn.filters is '1,2', expected list"),
        ("char_cnn__embedding", 16, "char_cnn.embedding is 16, expected an object"),
        ("char_cnn__embedding__dim", 4.0, "char_cnn.embedding.dim is 4.0, expected int"),
        ("char_cnn__max_characters_per_token", "50", "char_cnn.max_characters_per_token is '50', expected int"),
        ("elmokit", {"state": "warm"}, "elmokit.state is 'warm', expected one of zero, settled, carry"),
    ],
)
def test_a_value_of_another_type_is_refused_by_key(key: str, value: Any, shown: str, weights: Path) -> None:
    given = beside(weights, "options.json", **{key: value})
    message = refusal(weights, given)
    assert str(given) in message and shown in message


def test_all_wrong_values_are_told_at_once(weights: Path) -> None:
    changes = {"lstm__cell_clip": -1, "lstm__proj_clip": "3", "char_cnn__activation": "gelu", "elmokit": []}
    assert "4 problems" in refusal(weights, beside(weights, "options.json", **changes))


@pytest.mark.parametrize(("length", "shown"), [(0, "at least 3"), (2, "at least 3"), (10**12, "is more than")])
def test_an_impossible_row_of_characters_is_refused(length: int, shown: str, weights: Path) -> None:
    """A row of 10**12 characters would have loaded, and taken all memory at the first sentence."""
    given = beside(weights, "options.json", char_cnn__max_characters_per_token=length)
    message = refusal(weights, given)
    assert "options.json" in message and shown in message


def test_an_unknown_text_setting_is_answered_with_the_nearest(weights: Path) -> None:
    given = beside(weights, "options.json", elmokit={"text": {"tokeniser": "moses"}})
    with pytest.raises(ElmokitError, match=r"did you mean 'tokenizer'\?"):
        elmokit.read_weights((given, weights))


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_every_encoding_of_json_is_read(encoding: str, weights: Path) -> None:
    """Editors on Windows put a byte order mark before it."""
    weights.with_name("options.json").write_bytes(json.dumps(content()).encode(encoding))
    assert elmokit.read_weights(weights).config.lstm.cell_clip == 0.5


@pytest.mark.parametrize("depth", [21, 300, 900, *range(930, 1000, 7), 100_000])
def test_deep_nesting_is_refused_wherever_the_recursion_would_end(depth: int, weights: Path) -> None:
    """Between what the JSON reader takes and what was then done with it, Python's own RecursionError came out."""
    given = weights.with_name("options.json")
    nested = "[" * depth + "]" * depth
    for text in (nested, json.dumps(content(char_cnn__filters="@")).replace('"@"', nested)):
        given.write_text(text)
        assert str(given) in refusal(weights, given)


def test_a_number_of_five_thousand_digits_is_refused(weights: Path) -> None:
    given = weights.with_name("options.json")
    given.write_text(json.dumps(content(lstm__dim="@")).replace('"@"', "9" * 5000))
    assert "not JSON" in refusal(weights, given)


def test_a_huge_file_is_not_read(weights: Path) -> None:
    given = beside(weights, "options.json")
    given.write_text(given.read_text() + " " * (1 << 20))
    assert "too large" in refusal(weights, given)


def test_weights_given_as_options_are_refused(weights: Path) -> None:
    with pytest.raises(WeightsError, match=r"weights\.hdf5: not JSON") as caught:
        elmokit.read_weights((weights, weights))
    assert "options.json" in caught.value.hint


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["tiny", "small", "medium", "original"])
def test_options_of_a_config_say_it_all(preset: str, tmp_path: Path) -> None:
    config: BiLMConfig = getattr(BiLMConfig, preset)()
    (tmp_path / "options.json").write_text(json.dumps(to_options(config)))
    found = read_options(tmp_path / "options.json")
    assert config.characters is not None
    expected = Options(
        max_characters_per_token=config.characters.max_characters_per_token,
        shape=found.shape,
        origin="options.json",
    )
    assert found == expected
    assert found.shape["lstm.dim"] == config.lstm.dim


def test_how_the_model_was_trained_is_kept(weights: Path) -> None:
    beside(weights, "options.json", n_train_tokens=768648884, n_epochs=10, unroll_steps=20, secret="no")
    training = elmokit.read_weights(weights).provenance.training
    assert training == {"n_train_tokens": 768648884, "n_epochs": 10, "unroll_steps": 20}


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_cannot_be_read_is_not_passed_over(what: str, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that nobody may read were skipped: the defaults gave other vectors in silence."""
    beside(weights, "elmo.json", lstm__cell_clip=9.0)

    def refuse(self: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir" if what == "folder" else "read_bytes", refuse)
    with pytest.raises(WeightsError, match="Permission denied"):
        elmokit.read_weights(weights)


def test_json_that_is_no_options_file_is_passed_over(weights: Path) -> None:
    weights.with_name("notes.json").write_text("[1, 2")
    weights.with_name("folder.json").mkdir()
    assert "no options file was found" in elmokit.read_weights(weights).provenance.options
