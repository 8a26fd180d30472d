"""bilm-tf's HDF5 weights: the format that nearly every published ELMo is in.

Shapes come from the tensors; clips, activation, skip connection and characters a token from an `options.json`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from ...errors import DataError, SettingsError, ShapeMismatch, WeightsError, all_at_once
from ...files import beside, sha256
from ...model.config import BiLMConfig
from ...text.vocabulary import BEGIN, END, Vocabulary
from .. import hdf5
from ..bilm_shape import config_of, standard_names
from ..bundle import Provenance, WeightBundle, check_finite, check_shapes, check_sizes, expected_shapes
from ..hdf5_output import Hdf5Output
from ..key_map import Entry, bilm_entries
from ..options import Options, check_agreement, differences, options_beside, read_options, to_options

if TYPE_CHECKING:
    import h5py

TENSORFLOW_FORGET_BIAS = 1.0
"""TensorFlow's cell adds it when it runs, so it is not in the file."""

_CHARACTERS = "token_layer.characters.embedding.weight"
_STANDARD_ROWS = 262


class BilmHdf5:
    """`weights.hdf5` and, for what it does not say, an `options.json`."""

    def weights_file(self, source: Path) -> Path | None:
        import h5py

        if source.is_file():
            return source if h5py.is_hdf5(source) else None
        files = sorted(path for path in source.iterdir() if path.suffix in (".hdf5", ".h5") and h5py.is_hdf5(path))
        models = files if len(files) < 2 else [path for path in files if _holds_lstm(path)]
        if len(models) > 1:
            names = ", ".join(path.name for path in models)
            raise WeightsError(f"{source}: {len(models)} models here: {names}", hint="name the file")
        return models[0] if models else None

    def read(self, weights: Path, *, options: Path | None, softmax: bool, checksum: bool) -> WeightBundle:
        with hdf5.opened(weights) as file:
            found = hdf5.datasets(file, weights)
            names = standard_names(found, str(weights))
            by_standard_name = {standard: found[name] for standard, name in names.items()}
            config, entries = _shape(by_standard_name, weights)
            chosen = _choose_options(weights, options, config)
            tensors = _read_tensors(by_standard_name, entries, weights)
        config = _with_options(config, chosen, weights)
        if config.characters is not None and _holds_padding_row(tensors[_CHARACTERS]):
            tensors[_CHARACTERS] = tensors[_CHARACTERS][1:].clone()
            config = _with_rows(config, len(tensors[_CHARACTERS]))
        provenance = Provenance(
            format="bilm-hdf5",
            source=weights.name,
            sha256=sha256(weights) if checksum else "",
            options=chosen.origin,
            notes=tuple(_unusual(config, names, {entry.theirs for entry in entries})),
            training=chosen.training,
        )
        vocabulary = _vocabulary(weights.parent, config.words.n_words) if config.words else None
        return WeightBundle(config=config, tensors=tensors, provenance=provenance, vocabulary=vocabulary)

    def target_files(self, bundle: WeightBundle, target: Path) -> list[Path]:
        files = _target_files(target)
        return files[:2] if bundle.config.words is None or bundle.vocabulary is None else files

    def write(self, bundle: WeightBundle, target: Path) -> list[Path]:
        _refuse_what_it_cannot_hold(bundle.config)
        bundle = bundle.with_forget_bias(TENSORFLOW_FORGET_BIAS)
        weights, options, *vocabulary = files = self.target_files(bundle, target)
        weights.parent.mkdir(parents=True, exist_ok=True)
        with beside(weights) as temporary:
            _write_tensors(bundle, temporary)
        with beside(options) as temporary:
            temporary.write_text(json.dumps(to_options(bundle.config), indent=2) + "\n", encoding="utf-8")
        for path in vocabulary:
            assert bundle.vocabulary is not None
            with beside(path) as temporary:
                bundle.vocabulary.write(temporary)
        return files


BILM_HDF5 = BilmHdf5()


def _holds_lstm(path: Path) -> bool:
    with hdf5.opened(path) as file, hdf5.reading(path):
        return bool(file.visit(lambda name: True if "rnn" in name.lower() else None))


def _shape(found: Mapping[str, h5py.Dataset], weights: Path) -> tuple[BiLMConfig, list[Entry]]:
    shapes = {name: tuple(dataset.shape or ()) for name, dataset in found.items()}
    config = config_of(shapes, str(weights))
    ours = expected_shapes(config, where=str(weights))
    entries = bilm_entries(config)
    check_shapes(
        shapes,
        {entry.theirs: entry.their_shape([ours[name] for name in entry.ours]) for entry in entries},
        where=str(weights),
        hint="fetch the file again, or ask where it came from which tensors it should have",
    )
    wrong = [entry.theirs for entry in entries if found[entry.theirs].dtype.kind != "f"]
    if wrong:
        problems = [f"{name} holds {found[name].dtype}, expected float32" for name in wrong]
        raise WeightsError(all_at_once(problems, str(weights)), hint="fetch the file again")
    return config, entries


def _choose_options(weights: Path, given: Path | None, config: BiLMConfig) -> Options:
    if given is not None:
        options = read_options(given)
        check_agreement(options, config, where=str(weights))
        return options
    candidates = options_beside(weights)
    if not candidates:
        return Options()
    agreeing = [options for options in candidates if not differences(options, config)]
    if not agreeing:
        problems = [problem for options in candidates for problem in differences(options, config)]
        raise ShapeMismatch(all_at_once(problems, str(weights)), hint="put the options of these weights beside them")
    meanings = [dataclasses.replace(options, shape={}, training={}, origin="") for options in agreeing]
    if any(meaning != meanings[0] for meaning in meanings):
        names = ", ".join(options.origin for options in agreeing)
        raise WeightsError(f"{weights}: {names} all fit and differ", hint="give the pair: (options.json, weights.hdf5)")
    return agreeing[0]


def _read_tensors(found: Mapping[str, h5py.Dataset], entries: list[Entry], weights: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for entry in entries:
        theirs = hdf5.read_tensor(found[entry.theirs], weights)
        for name, tensor in zip(entry.ours, entry.layout.read(theirs), strict=True):
            tensors[name] = tensor.contiguous()
    check_finite(((entry.theirs, tensors[name]) for entry in entries for name in entry.ours), where=str(weights))
    return tensors


def _with_options(config: BiLMConfig, options: Options, weights: Path) -> BiLMConfig:
    lstm = dataclasses.replace(config.lstm, cell_clip=options.cell_clip, proj_clip=options.proj_clip, skip=options.skip)
    length = options.max_characters_per_token
    try:
        characters = config.characters and dataclasses.replace(
            config.characters, activation=options.activation, max_characters_per_token=length
        )
    except SettingsError as error:
        raise WeightsError(f"{weights}: {options.origin}: {error.message}", hint="correct the options") from error
    config = dataclasses.replace(config, lstm=lstm, characters=characters, state=options.state, text=options.text)
    check_sizes(config, where=f"{weights}: {options.origin}")
    return config


def _with_rows(config: BiLMConfig, n_characters: int) -> BiLMConfig:
    assert config.characters is not None
    return dataclasses.replace(config, characters=dataclasses.replace(config.characters, n_characters=n_characters))


def _holds_padding_row(embedding: Tensor) -> bool:
    """262 rows of which the first is zero were stored as they stand at inference, padding and all."""
    return len(embedding) == _STANDARD_ROWS + 1 and not bool(embedding[1].any())


def _unusual(config: BiLMConfig, names: Mapping[str, str], used: set[str]) -> list[str]:
    unused = sorted(names[name] for name in set(names) - used)
    renamed = [name for standard, name in names.items() if standard in used and name != standard]
    rows = config.characters.n_characters if config.characters else _STANDARD_ROWS
    facts = (
        (config.words is not None, "reads words, not characters"),
        (rows != _STANDARD_ROWS, f"{rows} rows of characters instead of {_STANDARD_ROWS}"),
        (len(config.directions) == 1, f"one direction: {config.directions[0]}"),
        (config.lstm.n_layers != 2, f"{config.lstm.n_layers} LSTM layers"),
        (not config.lstm.projection, "cells are not projected"),
        (config.characters is not None and not config.projection, "characters are not projected"),
        (not config.lstm.skip, "no skip connection"),
        (config.lstm.cell_clip is None, "cells are not clipped"),
        (config.lstm.projection and config.lstm.proj_clip is None, "projections are not clipped"),
        (config.characters is not None and config.characters.activation != "relu", "tanh convolutions"),
        (bool(renamed), f"tensors under other names than usual, such as {renamed[:1]}"),
        (bool(unused), f"not part of a biLM, left out: {', '.join(unused[:5])}"),
    )
    return [fact for holds, fact in facts if holds]


def _vocabulary(folder: Path, n_words: int) -> Vocabulary | None:
    """The word list beside a model that reads words: the one with a line for each row."""
    candidates = [path for path in sorted(folder.glob("*.txt")) if "vocab" in path.name.lower() and path.is_file()]
    found = {path: Vocabulary.read(path) for path in candidates}
    for path, vocabulary in found.items():
        if len(vocabulary) == n_words:
            if BEGIN not in vocabulary or END not in vocabulary:
                raise DataError(f"{path}: has no {BEGIN} or no {END}", hint="the model was trained with both")
            return vocabulary
    if found:
        sizes = ", ".join(f"{path.name} has {len(vocabulary):,}" for path, vocabulary in found.items())
        raise DataError(f"{folder}: the model has {n_words:,} words, {sizes}", hint="put its own vocabulary there")
    return None


def _refuse_what_it_cannot_hold(config: BiLMConfig) -> None:
    if config.words is not None and (config.characters is not None or config.projection):
        raise WeightsError(
            "bilm HDF5 has no place for a model that reads words beside characters, or projects them",
            hint="convert it to the native format: --to native",
        )


def _target_files(target: Path) -> list[Path]:
    """A folder, or a file by whose name its options and vocabulary are called."""
    if target.suffix not in (".hdf5", ".h5"):
        return [target / name for name in ("weights.hdf5", "options.json", "vocab.txt")]
    stem = target.stem.removesuffix("weights").removesuffix("_")
    prefix = f"{stem}_" if stem else ""
    return [target, target.with_name(f"{prefix}options.json"), target.with_name(f"{prefix}vocab.txt")]


def _write_tensors(bundle: WeightBundle, path: Path) -> None:
    with Hdf5Output(path) as file:
        for entry in bilm_entries(bundle.config):
            ours = [bundle.tensors[name].float() for name in entry.ours]
            file.add(entry.theirs, entry.layout.write(*ours).numpy(), dtype="float32")
