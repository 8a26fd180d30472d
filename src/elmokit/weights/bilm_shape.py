"""The shape of a bilm-tf model, read off the names and shapes of its tensors.

Each dimension is what most tensors say, so that in a damaged file just the tensors are named that do not fit. A model
of one layer or one direction is dumped under other names, which bilm-tf itself cannot read back: they are put right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from ..errors import MissingTensor, SettingsError, ShapeMismatch, WeightsError, all_at_once
from ..model.config import BiLMConfig, CharCNNConfig, LSTMConfig, WordsConfig
from ..text.alphabet import N_IDS

_DIRECTION = re.compile(r"(?:^|/)RNN_([01])/", re.IGNORECASE)
_LAYER = re.compile(r"/cell_?(\d{1,3})/", re.IGNORECASE)
_PART = re.compile(r"(?:^|/)(W_0|kernel|B|bias|W_P_0|projection/kernel)$")
_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}

Shapes = Mapping[str, tuple[int, ...]]


def standard_names(names: Iterable[str], where: str) -> dict[str, str]:
    """Standard name of each tensor -> its name in the file."""
    found: dict[str, str] = {}
    problems = []
    for name in names:
        standard = _standard_name(name)
        if standard in found:
            problems.append(f"{name} and {found[standard]} are the same tensor")
        found[standard] = name
    if problems:
        raise WeightsError(all_at_once(problems, where), hint="are two models in one file?")
    return found


def lstm_name(direction: int, layer: int, part: str) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{part}"


def config_of(shapes: Shapes, where: str) -> BiLMConfig:
    """What the tensors tell; clips, activation, skip and characters a token are the published ones until told."""
    layers = [(d, i) for d in (0, 1) for i in range(1000) if any(lstm_name(d, i, p) in shapes for p in _ALL_PARTS)]
    cells, token_dim = _lstm_dims(shapes, layers)
    reads_characters = any(name == "char_embed" or name.startswith("CNN") for name in shapes)
    if not layers or not (reads_characters or "embedding" in shapes) or not cells or not token_dim:
        raise MissingTensor(f"{where}: not a whole biLM: {_what_is_there(shapes, layers)}", hint=_WHOLE)
    try:
        characters = _characters(shapes) if reads_characters else None
        return BiLMConfig(
            token_dim=token_dim,
            characters=characters,
            words=None if characters else WordsConfig(n_words=shapes["embedding"][0], dim=token_dim),
            n_highway=_count(shapes, r"CNN_high_(\d{1,3})/"),
            projection=characters is not None
            and (characters.output_dim != token_dim or any(name.startswith("CNN_proj/") for name in shapes)),
            lstm=LSTMConfig(
                dim=cells,
                n_layers=1 + max(layer for _, layer in layers),
                projection=cells != token_dim or any(name.endswith("/W_P_0") for name in shapes),
            ),
            directions=tuple(x for i, x in enumerate(("forward", "backward")) if any(d == i for d, _ in layers)),  # type: ignore[misc]
        )
    except SettingsError as error:
        raise ShapeMismatch(f"{where}: no biLM has these shapes: {error.message}", hint=_WHOLE) from error


_ALL_PARTS = ("W_0", "B", "W_P_0")
_WHOLE = "a biLM has char_embed and CNN/... (or embedding), and RNN_0/... and RNN_1/...; fetch the file again"


def _standard_name(name: str) -> str:
    name = name.removeprefix("lm/")
    part = _PART.search(name)
    if part is None or "rnn" not in name.lower():
        return name
    direction, layer = (int(match[1]) if match else 0 for match in (_DIRECTION.search(name), _LAYER.search(name)))
    return lstm_name(direction, layer, _PARTS.get(part[1], part[1]))


def _lstm_dims(shapes: Shapes, layers: list[tuple[int, int]]) -> tuple[int, int]:
    cells: list[int] = []
    token_dims = [_dim(shapes, "CNN_proj/W_proj", 1, 2), _dim(shapes, "CNN_proj/b_proj", 0, 1)]
    token_dims.append(_dim(shapes, "embedding", 1, 2))
    for direction, layer in layers:
        matrix, bias, projection = (lstm_name(direction, layer, part) for part in _ALL_PARTS)
        cells += [_dim(shapes, matrix, 1, 2) // 4, _dim(shapes, bias, 0, 1) // 4, _dim(shapes, projection, 0, 2)]
        token_dims += [_dim(shapes, matrix, 0, 2) // 2, _dim(shapes, projection, 1, 2)]
    return _vote(cells), _vote(token_dims)


def _characters(shapes: Shapes) -> CharCNNConfig:
    names = [(f"CNN/W_cnn_{i}", f"CNN/b_cnn_{i}") for i in range(_count(shapes, r"CNN/[Wb]_cnn_(\d{1,3})$"))]
    filters = tuple(
        (max(1, _dim(shapes, weight, 1, 4)), max(1, _vote([_dim(shapes, bias, 0, 1), _dim(shapes, weight, 3, 4)])))
        for weight, bias in names
    )
    dims = [_dim(shapes, "char_embed", 1, 2), *(_dim(shapes, weight, 2, 4) for weight, _ in names)]
    return CharCNNConfig(
        dim=_vote(dims),
        filters=filters,
        n_characters=max(N_IDS, _dim(shapes, "char_embed", 0, 2) + 1),
        max_characters_per_token=max([50, *(width for width, _ in filters)]),
    )


def _dim(shapes: Shapes, name: str, axis: int, n_axes: int) -> int:
    """One size, or 0 where the tensor is missing or is not of so many axes."""
    shape = shapes.get(name, ())
    return shape[axis] if len(shape) == n_axes else 0


def _vote(sizes: Iterable[int]) -> int:
    """The commonest size, of several the first; 0 is an abstention."""
    counted = Counter(size for size in sizes if size)
    return counted.most_common(1)[0][0] if counted else 0


def _count(shapes: Shapes, pattern: str) -> int:
    """One more than the highest number in the names."""
    numbers = [int(match[1]) for match in (re.match(pattern, name) for name in shapes) if match]
    return 1 + max(numbers, default=-1)


def _what_is_there(shapes: Shapes, layers: list[tuple[int, int]]) -> str:
    if not shapes:
        return "the file holds no tensors"
    if not layers and "embedding" in shapes:
        return "it holds word vectors alone (embedding), and no LSTM"
    names = ", ".join(list(shapes)[:4])
    return f"found {len(shapes)} tensors ({names}{', ...' if len(shapes) > 4 else ''})"
