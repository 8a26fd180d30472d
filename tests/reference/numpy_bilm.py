"""A slow, obvious float64 NumPy biLM, written from the published maths alone: the oracle that faster code is held to.

It shares nothing with the library, and prefers a loop that can be checked by eye to one that is fast. Weights are a
mapping with the names and orientations of the published HDF5 layout. Every sentence is run by itself, so there is no
padding and no mask anywhere: what a batch must give is what its sentences give alone.

What is special about this LSTM: the hidden state is projected down, the cell and the projected state are clipped at
run time, the forget bias is added at run time (it is not in the stored bias), the gates come in the order i, j, f, o,
and layers from the second on add their input to their output, after the state was stored.

Axes: a sentence's `layers` are (n_layers + 1, n_tokens, dim), layer 0 being the token vectors once for each direction;
a `State` is (direction, layer, dim) for one row; directions stand in the order of `Shape.directions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Weights = Mapping[str, npt.NDArray[Any]]
Direction = Literal["forward", "backward"]
Start = Literal["zero", "settled", "carry"]

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD_CHARACTER = 256, 257, 258, 259, 260
BEGIN_MARK, END_MARK, UNKNOWN = "<S>", "</S>", "<UNK>"
NEUTRAL = (".",)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the weights cannot say by themselves, and the sizes that a random checkpoint needs."""

    n_layers: int = 2
    cell_dim: int
    """D, the size of the LSTM's cell."""
    projection_dim: int
    """P, the size of a token vector and of each direction's output; equal to `cell_dim` means no projection."""
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    skip: bool = True
    filters: tuple[tuple[int, int], ...] = ()
    """(width, number) of each convolution; empty for a model without characters."""
    char_dim: int = 0
    n_highway: int = 0
    activation: Literal["relu", "tanh"] = "relu"
    max_characters: int = 50
    word_dim: int = 0
    """The size of a word embedding; 0 for a model without words."""
    directions: tuple[Direction, ...] = ("forward", "backward")
    forget_bias: float = 1.0
    """Added to f at run time: 1 in the published HDF5 layout, 0 where the stored bias has it already."""

    @property
    def feature_dim(self) -> int:
        """Size of what enters the token projection: [word ; char]."""
        return self.word_dim + sum(number for _, number in self.filters)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Shape:
        """Read a published options.json that was already parsed; a model without `char_cnn` is a word-level one."""
        lstm, chars = options["lstm"], options.get("char_cnn")
        directions: tuple[Direction, ...] = (
            ("forward", "backward") if options.get("bidirectional", True) else ("forward",)
        )
        return cls(
            n_layers=lstm.get("n_layers", 1),
            cell_dim=lstm["dim"],
            projection_dim=lstm["projection_dim"],
            cell_clip=lstm.get("cell_clip"),
            proj_clip=lstm.get("proj_clip"),
            skip=bool(lstm.get("use_skip_connections")),
            filters=tuple((width, number) for width, number in chars["filters"]) if chars else (),
            char_dim=chars["embedding"]["dim"] if chars else 0,
            n_highway=chars.get("n_highway") or 0 if chars else 0,
            activation=chars["activation"] if chars else "relu",
            max_characters=chars["max_characters_per_token"] if chars else 50,
            word_dim=0 if chars else lstm["projection_dim"],
            directions=directions,
        )


@dataclass(frozen=True, kw_only=True)
class State:
    """The recurrent state of one row: `cell` is (direction, layer, D) and `hidden` (direction, layer, P)."""

    cell: Array
    hidden: Array


@dataclass(frozen=True, kw_only=True)
class SentenceRun:
    """What one sentence gives: `layers` without the sentence marks, `marked` with them, and the state after it."""

    layers: Array
    marked: Array
    state: State


@dataclass(frozen=True, kw_only=True)
class BatchedRun:
    """What a list of sentences gives: one `layers` array each, and the state of every row at the end (carry only)."""

    layers: list[Array]
    states: list[State]


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """One row for each prediction of a sentence of n tokens, n + 1 rows in each direction, both in sentence order.

    Row k of `forward` is what stands after k tokens: tokens[k], and at the end </S>. Row k of `backward` is what
    stands before tokens[k]: <S> for k = 0, else tokens[k - 1]. None for a direction that the model has not.
    """

    forward: Array | None
    backward: Array | None


# --- characters ------------------------------------------------------------------------------------------------------


def character_ids(token: str, max_characters: int = 50, *, shift: int = 1) -> list[int]:
    """The character row of a token; `shift` is the 1 that inference adds, so that 0 can mean a padding token."""
    if token == BEGIN_MARK:
        content = [BEGIN_SENTENCE]
    elif token == END_MARK:
        content = [END_SENTENCE]
    else:
        content = list(token.encode("utf-8", "ignore"))[: max_characters - 2]
    row = [BEGIN_WORD, *content, END_WORD]
    row += [PAD_CHARACTER] * (max_characters - len(row))
    return [number + shift for number in row]


def sentence_ids(tokens: Sequence[str], max_characters: int = 50, *, shift: int = 1) -> Ids:
    """The character rows of a sentence with its marks: (n_tokens + 2, max_characters)."""
    rows = [character_ids(token, max_characters, shift=shift) for token in (BEGIN_MARK, *tokens, END_MARK)]
    return np.array(rows, dtype=np.int64)


# --- token vectors ---------------------------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    """The logistic function, written so that it cannot overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def convolve(chars: Array, kernel: Array, bias: Array) -> Array:
    """Full windows of (token, char, char_dim) under a (1, width, char_dim, number) kernel: (token, window, number)."""
    width = kernel.shape[1]
    windows = [
        np.tensordot(chars[:, first : first + width], kernel[0], axes=([1, 2], [0, 1])) + bias
        for first in range(chars.shape[1] - width + 1)
    ]
    return np.stack(windows, axis=1)


def highway(weights: Weights, k: int, x: Array) -> Array:
    """One highway layer; `carry` is the published name of the gate that multiplies the *transformed* part."""
    w = {name: weights[f"CNN_high_{k}/{name}"] for name in ("W_carry", "b_carry", "W_transform", "b_transform")}
    gate = sigmoid(x @ w["W_carry"].astype(np.float64) + w["b_carry"])
    transformed = np.maximum(x @ w["W_transform"].astype(np.float64) + w["b_transform"], 0.0)
    return gate * transformed + (1.0 - gate) * x


def char_features(weights: Weights, shape: Shape, ids: Ids) -> Array:
    """Character rows as inference has them (shifted by 1) through embedding, convolutions and highways."""
    table = weights["char_embed"].astype(np.float64)
    table = np.concatenate([np.zeros((1, table.shape[1])), table])
    chars = table[ids]
    activation = np.tanh if shape.activation == "tanh" else lambda x: np.maximum(x, 0.0)
    features = []
    for i in range(len(shape.filters)):
        kernel = weights[f"CNN/W_cnn_{i}"].astype(np.float64)
        windows = convolve(chars, kernel, weights[f"CNN/b_cnn_{i}"].astype(np.float64))
        features.append(activation(windows.max(axis=1)))
    x: Array = np.concatenate(features, axis=-1)
    for k in range(shape.n_highway):
        x = highway(weights, k, x)
    return x


def word_features(weights: Weights, tokens: Sequence[str], vocabulary: Mapping[str, int]) -> Array:
    """Rows of `embedding`, by the token's line in the vocabulary, <UNK>'s line where it has none."""
    rows = [vocabulary[token] if token in vocabulary else vocabulary[UNKNOWN] for token in tokens]
    return weights["embedding"].astype(np.float64)[rows]


def token_vectors(
    weights: Weights, shape: Shape, tokens: Sequence[str], *, vocabulary: Mapping[str, int] | None = None
) -> Array:
    """Context-free vectors (n_tokens, P); the sentence marks are ordinary tokens here."""
    if not tokens:
        return np.zeros((0, shape.projection_dim))
    parts = []
    if shape.word_dim:
        assert vocabulary is not None, "a model with words needs its vocabulary"
        parts.append(word_features(weights, tokens, vocabulary))
    if shape.filters:
        ids = np.array([character_ids(token, shape.max_characters) for token in tokens], dtype=np.int64)
        parts.append(char_features(weights, shape, ids))
    x: Array = np.concatenate(parts, axis=-1)
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"].astype(np.float64) + weights["CNN_proj/b_proj"]
    return x


# --- the recurrence --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One LSTM layer of one direction: `kernel` ([input ; recurrent], 4D), `bias` (4D,); the gates are i, j, f, o."""

    kernel: Array
    bias: Array
    projection: Array | None
    forget_bias: float = 1.0
    cell_clip: float | None = None
    proj_clip: float | None = None


def clip(x: Array, limit: float | None) -> Array:
    """Clip to plus and minus `limit`; None leaves x alone."""
    return x if limit is None else np.clip(x, -limit, limit)


def lstm_step(lstm: Cell, x: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    """One time step from input x and (cell, hidden) to the new (cell, hidden); the output is the new hidden."""
    cell, hidden = state
    i, j, f, o = np.split(np.concatenate([x, hidden], axis=-1) @ lstm.kernel + lstm.bias, 4, axis=-1)
    cell = sigmoid(f + lstm.forget_bias) * cell + sigmoid(i) * np.tanh(j)
    cell = clip(cell, lstm.cell_clip)
    hidden = sigmoid(o) * np.tanh(cell)
    if lstm.projection is not None:
        hidden = clip(hidden @ lstm.projection, lstm.proj_clip)
    return cell, hidden


def lstm_names(direction: Direction, layer: int) -> list[tuple[str, str, str]]:
    """(kernel, bias, projection) under each name that published files use, the usual one first."""
    number = ("forward", "backward").index(direction)
    folders = [f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
    if layer == 0:
        folders.append(f"RNN_{number}/RNN/LSTMCell")
    names = [(f"{folder}/W_0", f"{folder}/B", f"{folder}/W_P_0") for folder in folders]
    if direction == "forward":
        odd = [f"rnn/MultiRNNCell/Cell{layer}/LSTMCell", f"rnn/multi_rnn_cell/cell_{layer}/lstm_cell"]
        odd += ["rnn/LSTMCell", "rnn/lstm_cell"] if layer == 0 else []
        names += [(f"{folder}/kernel", f"{folder}/bias", f"{folder}/projection/kernel") for folder in odd]
    return names


def lstm_cell(weights: Weights, shape: Shape, direction: Direction, *, layer: int) -> Cell:
    """Find one layer's weights under any of the published names."""
    for kernel, bias, projection in lstm_names(direction, layer):
        if kernel in weights:
            return Cell(
                kernel=weights[kernel].astype(np.float64),
                bias=weights[bias].astype(np.float64),
                projection=weights[projection].astype(np.float64) if projection in weights else None,
                forget_bias=shape.forget_bias,
                cell_clip=shape.cell_clip,
                proj_clip=shape.proj_clip,
            )
    raise KeyError(f"no {direction} LSTM layer {layer} among {sorted(weights)}")


def zero_state(shape: Shape) -> State:
    """The state that a row starts from when nothing was said before."""
    size = (len(shape.directions), shape.n_layers)
    return State(cell=np.zeros((*size, shape.cell_dim)), hidden=np.zeros((*size, shape.projection_dim)))


def run_layer(lstm: Cell, x: Array, state: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
    """One LSTM layer over (n_tokens, dim), first row first: its outputs and its last (cell, hidden)."""
    outputs = np.zeros((len(x), state[1].shape[-1]))
    for t in range(len(x)):
        state = lstm_step(lstm, x[t], state)
        outputs[t] = state[1]
    return outputs, state


def run_vectors(weights: Weights, shape: Shape, x: Array, *, state: State | None = None) -> tuple[Array, State]:
    """Token vectors (n, P), marks included where wanted, to layers (n_layers + 1, n, dim) and the state after them."""
    before = state or zero_state(shape)
    cell, hidden = before.cell.copy(), before.hidden.copy()
    halves = []
    for d, direction in enumerate(shape.directions):
        order = slice(None) if direction == "forward" else slice(None, None, -1)
        inputs = x[order]
        layers = [x]
        for layer in range(shape.n_layers):
            lstm = lstm_cell(weights, shape, direction, layer=layer)
            outputs, (cell[d, layer], hidden[d, layer]) = run_layer(lstm, inputs, (cell[d, layer], hidden[d, layer]))
            if shape.skip and layer > 0:
                outputs = outputs + inputs
            layers.append(outputs[order])
            inputs = outputs
        halves.append(np.stack(layers))
    return np.concatenate(halves, axis=-1), State(cell=cell, hidden=hidden)


# --- sentences -------------------------------------------------------------------------------------------------------


def run_sentence(
    weights: Weights,
    shape: Shape,
    tokens: Sequence[str],
    *,
    state: State | None = None,
    vocabulary: Mapping[str, int] | None = None,
) -> SentenceRun:
    """Run one sentence with its marks, and drop them from `layers`; an empty one is not run and keeps its state."""
    if not tokens:
        nothing = np.zeros((shape.n_layers + 1, 0, len(shape.directions) * shape.projection_dim))
        return SentenceRun(layers=nothing, marked=nothing, state=state or zero_state(shape))
    x = token_vectors(weights, shape, (BEGIN_MARK, *tokens, END_MARK), vocabulary=vocabulary)
    marked, after = run_vectors(weights, shape, x, state=state)
    return SentenceRun(layers=marked[:, 1:-1], marked=marked, state=after)


def settled_state(
    weights: Weights,
    shape: Shape,
    tokens: Sequence[str] = NEUTRAL,
    *,
    times: int = 3,
    vocabulary: Mapping[str, int] | None = None,
) -> State:
    """The state after a neutral sentence was run `times` times from zero, each run going on from the one before."""
    state = zero_state(shape)
    for _ in range(times):
        state = run_sentence(weights, shape, tokens, state=state, vocabulary=vocabulary).state
    return state


def embed_sentences(
    weights: Weights,
    shape: Shape,
    sentences: Sequence[Sequence[str]],
    *,
    start: Start = "zero",
    batch_size: int = 1,
    states: Sequence[State] | None = None,
    vocabulary: Mapping[str, int] | None = None,
) -> BatchedRun:
    """Run sentences in input order from one of three starts; only "carry" looks at `batch_size` and `states`.

    "carry": the sentences fall into consecutive batches, and the final state of row r seeds row r of the next batch.
    Rows beyond a short batch are left alone, and so is the row of an empty sentence. `states` are the rows at the
    beginning, zero where it has none.
    """
    if start != "carry":
        first = settled_state(weights, shape, vocabulary=vocabulary) if start == "settled" else zero_state(shape)
        runs = [run_sentence(weights, shape, tokens, state=first, vocabulary=vocabulary) for tokens in sentences]
        return BatchedRun(layers=[run.layers for run in runs], states=[])
    rows = list(states or [])
    rows += [zero_state(shape) for _ in range(batch_size - len(rows))]
    layers = []
    for number, tokens in enumerate(sentences):
        row = number % batch_size
        run = run_sentence(weights, shape, tokens, state=rows[row], vocabulary=vocabulary)
        rows[row] = run.state
        layers.append(run.layers)
    return BatchedRun(layers=layers, states=rows)


# --- what stands on top ----------------------------------------------------------------------------------------------


def layer_normalise(sentences: Sequence[Array], per: Literal["batch", "token"]) -> list[Array]:
    """Normalise each layer of (layer, token, dim) arrays, over all elements of all sentences or token by token."""
    if per == "token":
        return [(x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12) for x in sentences]
    joined = np.concatenate(sentences, axis=1)
    mean, variance = joined.mean((1, 2), keepdims=True), joined.var((1, 2), keepdims=True)
    return [(x - mean) / np.sqrt(variance + 1e-12) for x in sentences]


def scalar_mix(
    sentences: Sequence[Array],
    scalars: Sequence[float],
    *,
    gamma: float = 1.0,
    layer_norm: Literal["batch", "token"] | None = None,
) -> list[Array]:
    """gamma times the sum of softmax(scalars)_j layers_j for the (layer, token, dim) arrays of one batch's sentences.

    There is no padding here: the published "batch" norm runs over the unmasked elements, which are all of these.
    """
    exponentials = np.exp(np.array(scalars, dtype=np.float64) - max(scalars))
    shares = exponentials / exponentials.sum()
    if layer_norm is not None:
        sentences = layer_normalise(sentences, layer_norm)
    return [gamma * np.tensordot(shares, x, axes=1) for x in sentences]


def log_softmax(logits: Array) -> Array:
    """Log probabilities over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def log_probabilities(
    weights: Weights,
    shape: Shape,
    tokens: Sequence[str],
    *,
    state: State | None = None,
    vocabulary: Mapping[str, int] | None = None,
) -> Predictions:
    """Log probabilities (n_tokens + 1, V) of the full softmax; the directions share `softmax/W` and `softmax/b`.

    Without `softmax/W` the word embedding is the softmax, as in word-level models that share the two. The forward
    direction reads <S> and the tokens, the backward one </S> and the tokens: neither is shown the mark that it predicts
    last, in training or here.
    """
    x = token_vectors(weights, shape, (BEGIN_MARK, *tokens, END_MARK), vocabulary=vocabulary)
    top = run_vectors(weights, shape, x, state=state)[0][-1]
    matrix = weights["softmax/W"] if "softmax/W" in weights else weights["embedding"]
    found: dict[str, Array] = {}
    for direction, half in zip(shape.directions, np.split(top, len(shape.directions), axis=-1), strict=True):
        seen = half[:-1] if direction == "forward" else half[1:]
        found[direction] = log_softmax(seen @ matrix.astype(np.float64).T + weights["softmax/b"])
    return Predictions(forward=found.get("forward"), backward=found.get("backward"))


def token_log_probabilities(
    predictions: Predictions, tokens: Sequence[str], vocabulary: Mapping[str, int]
) -> Predictions:
    """Pick what was there: `forward` of the tokens, then </S>; `backward` of <S>, then the tokens; (n_tokens + 1,)."""

    def pick(rows: Array | None, targets: Sequence[str]) -> Array | None:
        if rows is None:
            return None
        ids = [vocabulary[target] if target in vocabulary else vocabulary[UNKNOWN] for target in targets]
        return rows[np.arange(len(ids)), ids]

    return Predictions(
        forward=pick(predictions.forward, (*tokens, END_MARK)),
        backward=pick(predictions.backward, (BEGIN_MARK, *tokens)),
    )
