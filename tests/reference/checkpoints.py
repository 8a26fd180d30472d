"""Random checkpoints in the published layout, in memory and on disk, in all the variants that are in use.

They are written with h5py and json alone, so that a reader is tested against something it has no part in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import numpy.typing as npt

from .numpy_bilm import BEGIN_MARK, END_MARK, UNKNOWN, Direction, Shape

Checkpoint = dict[str, npt.NDArray[np.float32]]
Names = Literal["usual", "single", "dumped", "variables"]

WORDS = ("the", "of", ".", "bank", "river", "flooded", "Ärger", "a", "naïve", "日本", ",", "end")

SENTENCES: tuple[tuple[str, ...], ...] = (
    ("The", "river", "bank", "flooded", "."),
    ("a",),
    ("Ärger", "mit", "日本", ",", "naïve", "🙂", "x" * 70, "ü" * 30, "."),
    (),
    ("<S>", "the", "</S>", "<s>", "", "<UNK>", " "),
    ("the", "end", "of", "the", "river", "."),
    ("the", "end", "of", "the", "river", "."),
)
"""Sentences that meet the odd cases: one token, none, cut UTF-8, marks as tokens, the empty token, the same twice."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One checkpoint to make: its shape, and how its files spell it."""

    id: str
    shape: Shape
    names: Names = "usual"
    """How the LSTM's datasets are called: see `lstm_folder`."""
    n_characters: int = 262
    """What options.json claims: 261 from training, 262 from inference, with the same weights."""
    char_rows: int = 261
    """Rows of `char_embed`; a 262nd is never read."""
    spelled_out: bool = False
    """Write 0 and null for what is absent, instead of leaving the key out."""

    def __str__(self) -> str:
        return self.id


def as_case(shape: Shape | Case) -> Case:
    """A bare shape is spelled in the usual way."""
    return shape if isinstance(shape, Case) else Case(id="shape", shape=shape)


def vocabulary(shape: Shape | Case) -> list[str]:
    """The lines of vocab.txt of a word-level checkpoint: the special tokens first."""
    return [BEGIN_MARK, END_MARK, UNKNOWN, *WORDS] if as_case(shape).shape.word_dim else []


def vocabulary_ids(shape: Shape | Case) -> dict[str, int]:
    """Token to line number, from 0."""
    return {token: line for line, token in enumerate(vocabulary(shape))}


def lstm_folder(case: Case, direction: Direction, layer: int) -> str:
    """Where one LSTM layer's datasets are.

    "single" is what bilm-tf's dump makes of a one-layer model, "dumped" of a one-direction model (its renaming misses
    the leading `rnn/`, so kernel and bias keep their names), "variables" are TensorFlow's names without any renaming.
    """
    number = ("forward", "backward").index(direction)
    single = case.shape.n_layers == 1
    match case.names:
        case "usual":
            return f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        case "single":
            return f"RNN_{number}/RNN/LSTMCell"
        case "dumped":
            return "rnn/LSTMCell" if single else f"rnn/MultiRNNCell/Cell{layer}/LSTMCell"
        case "variables":
            return "rnn/lstm_cell" if single else f"rnn/multi_rnn_cell/cell_{layer}/lstm_cell"


def options(shape: Shape | Case) -> dict[str, Any]:
    """The content of options.json; the training keys come with 261 characters, as they did in the published files."""
    case = as_case(shape)
    shape = case.shape
    lstm: dict[str, Any] = {"dim": shape.cell_dim, "projection_dim": shape.projection_dim, "n_layers": shape.n_layers}
    for key, limit in (("cell_clip", shape.cell_clip), ("proj_clip", shape.proj_clip)):
        if limit is not None or case.spelled_out:
            lstm[key] = limit
    if shape.skip or case.spelled_out:
        lstm["use_skip_connections"] = shape.skip
    found: dict[str, Any] = {"lstm": lstm}
    if len(shape.directions) == 1 or case.n_characters == 261:
        found["bidirectional"] = len(shape.directions) == 2
    if case.n_characters == 261:
        found |= {"dropout": 0.1, "all_clip_norm_val": 10.0, "n_epochs": 10, "batch_size": 128, "unroll_steps": 20}
    if shape.word_dim:
        found["n_tokens_vocab"] = len(vocabulary(case))
    if shape.filters:
        found["char_cnn"] = {
            "activation": shape.activation,
            "embedding": {"dim": shape.char_dim},
            "filters": [list(each) for each in shape.filters],
            "max_characters_per_token": shape.max_characters,
            "n_characters": case.n_characters,
        }
        if shape.n_highway or case.spelled_out:
            found["char_cnn"]["n_highway"] = shape.n_highway
    return found


def random_checkpoint(shape: Shape | Case, seed: int = 0) -> Checkpoint:
    """Random float32 weights at the scale of the published fixtures; an odd seed makes an LSTM that is clipped."""
    case = as_case(shape)
    rng = np.random.default_rng(seed)
    found = _input_weights(case, rng)
    for direction in case.shape.directions:
        for layer in range(case.shape.n_layers):
            found |= _lstm_weights(case, f"{lstm_folder(case, direction, layer)}/", rng=rng, large=bool(seed % 2))
    return {name: value.astype(np.float32) for name, value in found.items()}


def random_softmax(shape: Shape | Case, n_tokens: int, *, seed: int = 0) -> Checkpoint:
    """`softmax/W` and `softmax/b`, which the published HDF5 files leave out."""
    rng = np.random.default_rng([seed, n_tokens])
    matrix = rng.normal(0, 1, (n_tokens, as_case(shape).shape.projection_dim))
    return {"softmax/W": matrix.astype(np.float32), "softmax/b": rng.normal(0, 0.5, n_tokens).astype(np.float32)}


def _input_weights(case: Case, rng: np.random.Generator) -> dict[str, npt.NDArray[np.float64]]:
    shape = case.shape
    found: dict[str, npt.NDArray[np.float64]] = {}
    if shape.word_dim:
        found["embedding"] = rng.normal(0, 0.8, (len(vocabulary(case)), shape.word_dim))
    if shape.filters:
        found["char_embed"] = rng.normal(0, 0.6, (case.char_rows, shape.char_dim))
    for i, (width, number) in enumerate(shape.filters):
        found[f"CNN/W_cnn_{i}"] = rng.normal(
            0, 1.2 / np.sqrt(width * shape.char_dim), (1, width, shape.char_dim, number)
        )
        found[f"CNN/b_cnn_{i}"] = rng.normal(0, 0.1, number)
    n_features = sum(number for _, number in shape.filters)
    for k in range(shape.n_highway):
        for part, centre in (("carry", -1.0), ("transform", 0.0)):
            found[f"CNN_high_{k}/W_{part}"] = rng.normal(0, 1 / np.sqrt(n_features), (n_features, n_features))
            found[f"CNN_high_{k}/b_{part}"] = rng.normal(centre, 0.1, n_features)
    if shape.feature_dim != shape.projection_dim:
        size = (shape.feature_dim, shape.projection_dim)
        found["CNN_proj/W_proj"] = rng.normal(0, 1.4 / np.sqrt(shape.feature_dim), size)
        found["CNN_proj/b_proj"] = rng.normal(0, 0.15, shape.projection_dim)
    return found


def _lstm_weights(
    case: Case, folder: str, *, rng: np.random.Generator, large: bool
) -> dict[str, npt.NDArray[np.float64]]:
    dim, width = case.shape.cell_dim, case.shape.projection_dim
    spelled = ("W_0", "B", "W_P_0") if "/RNN/" in folder else ("kernel", "bias", "projection/kernel")
    bias = rng.normal(0, 0.1, (4, dim))
    if large:  # cells that keep adding in one direction: this is how real cells come to be clipped
        bias[0] += 1.0
        bias[1] += rng.choice([-1.5, 1.5], dim)
        bias[2] += 2.0
        bias[3] += 1.0
    scale = (0.4 if large else 0.8) / np.sqrt(2 * width)  # a large one with 0.8 is chaotic: float32 cannot follow
    found = {folder + spelled[0]: rng.normal(0, scale, (2 * width, 4 * dim)), folder + spelled[1]: bias.reshape(-1)}
    if dim != width:
        found[folder + spelled[2]] = rng.normal(0, (3.0 if large else 1.2) / np.sqrt(dim), (dim, width))
    return found


def write_checkpoint(
    folder: Path, shape: Shape | Case, *, seed: int = 0, weights: Mapping[str, npt.NDArray[Any]] | None = None
) -> tuple[Path, Path]:
    """Write options.json, weights.hdf5 and, for word-level models, vocab.txt; `weights` overrides the random draw."""
    case = as_case(shape)
    folder.mkdir(parents=True, exist_ok=True)
    options_path, weights_path = folder / "options.json", folder / "weights.hdf5"
    options_path.write_text(json.dumps(options(case), indent=2), encoding="utf-8")
    with h5py.File(weights_path, "w") as file:
        for name, value in (random_checkpoint(case, seed) if weights is None else weights).items():
            file.create_dataset(name, data=value)
    if case.shape.word_dim:
        lines = "".join(f"{token}\n" for token in vocabulary(case))
        (folder / "vocab.txt").write_text(lines, encoding="utf-8")
    return options_path, weights_path


# --- the shapes ------------------------------------------------------------------------------------------------------

_FILTERS = ((1, 4), (2, 6), (3, 8))
_ONE: tuple[Direction, ...] = ("forward",)


def _chars(**changes: Any) -> Shape:
    """A small character model as published, with changes."""
    usual: dict[str, Any] = {"cell_dim": 12, "projection_dim": 6, "filters": _FILTERS, "char_dim": 4, "n_highway": 2}
    return Shape(**(usual | changes))


def _words(**changes: Any) -> Shape:
    """A small word-level model, with changes."""
    width = changes.get("projection_dim", 6)
    return Shape(**({"cell_dim": 12, "projection_dim": width, "word_dim": width} | changes))


_PLAIN: dict[str, Any] = {"n_highway": 0, "cell_clip": None, "proj_clip": None, "skip": False}

SHAPES: list[Case] = [
    Case(id="published", shape=_chars()),
    Case(id="published-261", shape=_chars(), n_characters=261),
    Case(id="char-embed-262-rows", shape=_chars(), char_rows=262),
    Case(id="char-embed-262-rows-261", shape=_chars(), char_rows=262, n_characters=261),
    Case(id="one-highway", shape=_chars(n_highway=1)),
    Case(id="no-highway", shape=_chars(n_highway=0)),
    Case(id="no-highway-spelled-out", shape=_chars(n_highway=0), spelled_out=True),
    Case(id="no-skip", shape=_chars(skip=False)),
    Case(id="no-clips", shape=_chars(cell_clip=None, proj_clip=None)),
    Case(id="no-clips-spelled-out", shape=_chars(cell_clip=None, proj_clip=None), spelled_out=True),
    Case(id="cell-clip-only", shape=_chars(cell_clip=1.5, proj_clip=None)),
    Case(id="proj-clip-only", shape=_chars(cell_clip=None, proj_clip=0.75)),
    Case(id="tight-clips", shape=_chars(cell_clip=0.5, proj_clip=0.25)),
    Case(id="tanh", shape=_chars(activation="tanh")),
    Case(id="no-projection", shape=_chars(cell_dim=8, projection_dim=8)),
    Case(id="no-projection-tight-clips", shape=_chars(cell_dim=8, projection_dim=8, cell_clip=0.5, proj_clip=0.05)),
    Case(id="no-token-projection", shape=_chars(projection_dim=18, cell_dim=24)),
    Case(id="no-projection-at-all", shape=_chars(projection_dim=18, cell_dim=18)),
    Case(id="all-plain", shape=_chars(**_PLAIN, projection_dim=18, cell_dim=18, activation="tanh"), n_characters=261),
    Case(id="max-characters-17", shape=_chars(max_characters=17)),
    Case(id="max-characters-3", shape=_chars(max_characters=3)),
    Case(id="wide-filters", shape=_chars(filters=((1, 3), (4, 5), (7, 9)), char_dim=5, max_characters=7)),
    Case(id="one-filter", shape=_chars(filters=((3, 10),), n_highway=1)),
    Case(id="unordered-filters", shape=_chars(filters=((5, 3), (1, 7), (5, 2)))),
    Case(id="three-layers", shape=_chars(n_layers=3, cell_dim=9, projection_dim=5)),
    Case(id="one-layer", shape=_chars(n_layers=1)),
    Case(id="one-layer-odd-names", shape=_chars(n_layers=1), names="single"),
    Case(id="one-layer-odd-names-no-projection", shape=_chars(n_layers=1, cell_dim=6), names="single"),
    Case(id="forward", shape=_chars(directions=_ONE)),
    Case(id="forward-dumped-names", shape=_chars(directions=_ONE), names="dumped", n_characters=261),
    Case(id="forward-variable-names", shape=_chars(directions=_ONE), names="variables"),
    Case(id="forward-one-layer-dumped-names", shape=_chars(directions=_ONE, n_layers=1), names="dumped"),
    Case(
        id="forward-one-layer-variable-names", shape=_chars(directions=_ONE, n_layers=1, cell_dim=6), names="variables"
    ),
    Case(id="words", shape=_words()),
    Case(id="words-no-projection", shape=_words(cell_dim=6, skip=False)),
    Case(id="words-one-layer-odd-names", shape=_words(n_layers=1), names="single"),
    Case(id="words-forward-dumped-names", shape=_words(directions=_ONE, cell_clip=None), names="dumped"),
]
"""Shapes that published files have, or can have by their own rules; ids are stable."""

UNPUBLISHED: list[Case] = [
    Case(id="words-and-chars", shape=_chars(word_dim=5)),
    Case(id="words-projected", shape=_words(word_dim=9)),
    Case(id="forget-bias-stored", shape=_chars(forget_bias=0.0)),
    Case(id="backward", shape=_chars(directions=("backward",))),
]
"""Maths that other layouts need and the HDF5 layout cannot say: for comparing modules, not files."""
