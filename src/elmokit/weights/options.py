"""`options.json` of bilm-tf: what a weights file does not say, and much that it does (which is then compared).

Given by the user, or found beside the weights by what it contains, or else the published defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from ..errors import ShapeMismatch, WeightsError, all_at_once
from ..model.config import Activation, BiLMConfig, State
from ..settings import from_plain, to_plain
from ..text.config import TextConfig
from .json_file import read_object

MAX_BYTES = 1 << 20
"""No published options file comes near."""

_HINT = "give the options.json that was published with the weights"

_TRAINING_KEYS = (
    "n_train_tokens",
    "n_epochs",
    "batch_size",
    "n_gpus",
    "unroll_steps",
    "n_negative_samples_batch",
    "n_tokens_vocab",
    "dropout",
    "all_clip_norm_val",
    "learning_rate",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the tensors cannot tell, and what can be compared with them. The defaults are the published models'."""

    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    skip: bool = True
    activation: Activation = "relu"
    max_characters_per_token: int = 50
    state: State = "carry"
    text: TextConfig = field(default_factory=TextConfig)
    shape: Mapping[str, Any] = field(default_factory=dict)
    """What is said of the tensors' shapes, by its key in the file."""
    training: Mapping[str, Any] = field(default_factory=dict)
    origin: str = "the published defaults (clips 3, relu, skip connection, 50 characters); no options file was found"


def read_options(path: Path) -> Options:
    """Read a file that is meant to be options; whatever is wrong with it is an error."""
    return _parse(_object(path), where=str(path), origin=path.name)


def options_beside(weights: Path) -> list[Options]:
    """Every options file in the folder of `weights`, known by its content.

    A file that calls itself options and cannot be read as such is refused: it would otherwise be passed over in
    silence, and other clips give other vectors.
    """
    found = []
    for path in _json_files(weights.parent):
        if "options" in path.name.lower():
            found.append(read_options(path))
            continue
        try:
            data = _object(path)
        except WeightsError as error:
            if isinstance(error.__cause__, OSError):
                raise  # who cannot read it cannot know that it is no options file
            continue
        if _looks_like_options(data):
            found.append(_parse(data, where=str(path), origin=path.name))
    return found


def _json_files(folder: Path) -> list[Path]:
    try:
        files = sorted(path for path in folder.iterdir() if path.name.endswith(".json"))
        return [path for path in files if path.is_file() or "options" in path.name.lower()]
    except OSError as error:
        raise WeightsError(
            f"{folder}: cannot be searched for options ({error.strerror})", hint="give (options.json, weights.hdf5)"
        ) from error


def differences(options: Options, config: BiLMConfig) -> list[str]:
    """Where the options say another shape than the tensors."""
    said, found = options.shape, _shape_of(config)
    return [
        f"{key} is {_plain(value)} in {options.origin}, {found[key]} in the tensors"
        for key, value in said.items()
        if found[key] != _plain(value)
    ]


def check_agreement(options: Options, config: BiLMConfig, *, where: str) -> None:
    problems = differences(options, config)
    if problems:
        raise ShapeMismatch(
            all_at_once(problems, where),
            hint=f"give the options that belong to these weights; {options.origin} describes another model",
        )


def to_options(config: BiLMConfig) -> dict[str, Any]:
    """The file that bilm-tf, AllenNLP and `read_options` read; what they have no word for is under `elmokit`."""
    lstm = config.lstm
    options: dict[str, Any] = {
        "bidirectional": len(config.directions) == 2,
        "lstm": {
            "dim": lstm.dim,
            "projection_dim": config.token_dim,
            "n_layers": lstm.n_layers,
            "use_skip_connections": lstm.skip,
        },
        "elmokit": {"state": config.state, "text": to_plain(config.text)},
    }
    for key, value in (("cell_clip", lstm.cell_clip), ("proj_clip", lstm.proj_clip)):
        if value is not None:
            options["lstm"][key] = value
    if config.characters is not None:
        options["char_cnn"] = {
            "embedding": {"dim": config.characters.dim},
            "filters": [list(pair) for pair in config.characters.filters],
            "activation": config.characters.activation,
            "n_highway": config.n_highway,
            "n_characters": config.characters.n_characters,
            "max_characters_per_token": config.characters.max_characters_per_token,
        }
    return options


def _object(path: Path) -> dict[str, Any]:
    return read_object(path, max_bytes=MAX_BYTES, hint=_HINT)


def _looks_like_options(data: Mapping[str, Any]) -> bool:
    return isinstance(data.get("lstm"), dict) and "dim" in data["lstm"]


def _parse(data: Mapping[str, Any], *, where: str, origin: str) -> Options:
    if not _looks_like_options(data):
        raise WeightsError(
            f"{where}: cannot be read as options: expected an object with 'lstm': {{'dim': ...}}", hint=_HINT
        )
    lstm, cnn, ours = _Table(data, "lstm"), _Table(data, "char_cnn"), _Table(data, "elmokit")
    options = Options(
        cell_clip=lstm.number("cell_clip"),
        proj_clip=lstm.number("proj_clip"),
        skip=lstm.get("use_skip_connections", bool, default=False),
        activation=cnn.one_of("activation", get_args(Activation), default="relu"),
        max_characters_per_token=cnn.get("max_characters_per_token", int, default=50),
        state=ours.one_of("state", get_args(State), default="carry"),
        text=from_plain(TextConfig, ours.get("text", dict, default={}), where=f"{where}: elmokit.text"),
        shape=_said_shape(lstm, cnn, data),
        training={key: data[key] for key in _TRAINING_KEYS if key in data},
        origin=origin,
    )
    problems = lstm.problems + cnn.problems + ours.problems
    if problems:
        raise WeightsError(all_at_once(problems, where), hint="correct the file, or give another")
    return options


def _said_shape(lstm: _Table, cnn: _Table, data: Mapping[str, Any]) -> dict[str, Any]:
    reads_characters = isinstance(data.get("char_cnn"), dict)
    said: dict[str, Any] = {
        "char_cnn": reads_characters,
        "lstm.dim": lstm.get("dim", int),
        "lstm.projection_dim": lstm.get("projection_dim", int),
        "lstm.n_layers": lstm.get("n_layers", int, default=1),
        "char_cnn.filters": cnn.get("filters", list),
        "char_cnn.n_highway": cnn.get("n_highway", int, default=0 if reads_characters else None),
        "char_cnn.embedding.dim": _Table(cnn.data, "char_cnn.embedding", cnn.problems).get("dim", int),
        "bidirectional": data.get("bidirectional"),
    }
    return {key: value for key, value in said.items() if value is not None}


def _shape_of(config: BiLMConfig) -> dict[str, Any]:
    characters = config.characters
    return {
        "char_cnn": characters is not None,
        "lstm.dim": config.lstm.dim,
        "lstm.projection_dim": config.token_dim,
        "lstm.n_layers": config.lstm.n_layers,
        "char_cnn.filters": _plain(characters.filters) if characters else None,
        "char_cnn.n_highway": config.n_highway,
        "char_cnn.embedding.dim": characters.dim if characters else None,
        "bidirectional": len(config.directions) == 2,
    }


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


class _Table:
    """One table of the file, read with types; problems are collected, for all are told at once."""

    def __init__(self, data: Mapping[str, Any], name: str, problems: list[str] | None = None) -> None:
        self.name = name
        self.problems = [] if problems is None else problems
        self.data: Mapping[str, Any] = {}
        table = data.get(name.rpartition(".")[2])
        if isinstance(table, dict):
            self.data = table
        elif table is not None:
            self.problems.append(f"{name} is {table!r:.60}, expected an object")

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.data.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.problems.append(f"{self.name}.{key} is {value!r:.60}, expected {kind.__name__}")
            return default
        return value

    def one_of(self, key: str, known: tuple[str, ...], default: Any) -> Any:
        value = self.data.get(key, default)
        if value not in known:
            self.problems.append(f"{self.name}.{key} is {value!r:.60}, expected one of {', '.join(known)}")
        return value

    def number(self, key: str) -> float | None:
        """A clip: absent or null is none; bilm-tf would set everything to zero at 0."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            self.problems.append(f"{self.name}.{key} is {value!r:.60}, expected a positive number, or null for no clip")
            return None
        return float(value)
