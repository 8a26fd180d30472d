"""A frozen biLM made ready to run fast: `BiLM.forward` without its padding, its repetition, and what nobody asked for.

What is special: rows run packed, longest first, so that no step computes padding (packing.py); both directions of a
layer run together, by the fastest recurrence that there is (recurrence.py); a long text runs in pieces of steps, layer
by layer, so that the device holds one piece; and layers beyond those asked for are not run. An engine holds copies of
weights where another precision or layout needs them, and is good until a weight changes.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from numpy import ndarray
from torch import Tensor

from ..errors import DataError, WeightsError
from .characters import Convolve, Filters, answers, fastest
from .packing import Packing
from .recurrence import PackedLayer, State

if TYPE_CHECKING:
    from ..model.batch import CharacterBatch
    from ..model.bilm import BiLM


WORDS_AT_ONCE = 1 << 15
"""Words whose filters' answers are in memory together."""


@dataclass(frozen=True, eq=False)
class Rows:
    """What an engine runs: rows of words, and where the vectors of each step are wanted."""

    index: Int64[ndarray, "row time"]
    """Numbers of words; 0 behind a row's end."""
    places: Int64[ndarray, "row time"]
    """Places in the result, -1 for what nobody wants."""
    n_places: int

    @classmethod
    def padded(cls, index: Int64[ndarray, "row time"], *, drop_marks: bool) -> Rows:
        """Each row in a place of its own, all equally long; without marks they are two shorter."""
        n_rows, n_steps = index.shape
        width = n_steps - 2 if drop_marks else n_steps
        places = np.arange(n_rows)[:, None] * width + np.arange(n_steps) - (1 if drop_marks else 0)
        return cls(index, np.where(_wanted(index, drop_marks=drop_marks), places, -1), n_rows * width)

    @classmethod
    def flat(cls, index: Int64[ndarray, "row time"]) -> Rows:
        """Row behind row, without marks."""
        wanted = _wanted(index, drop_marks=True)
        return cls(index, np.where(wanted, wanted.cumsum().reshape(index.shape) - 1, -1), int(wanted.sum()))


def _wanted(index: Int64[ndarray, "row time"], *, drop_marks: bool) -> Bool[ndarray, "row time"]:
    """The steps within each row, or those between its first and its last."""
    steps = np.arange(index.shape[1])
    lengths = (index != 0).sum(axis=1, keepdims=True)
    return (steps > 0) & (steps < lengths - 1) if drop_marks else steps < lengths


class Engine:
    """A biLM's weights as its device runs them fastest, in `dtype` (by default the weights' own)."""

    def __init__(self, bilm: BiLM, *, dtype: torch.dtype | None = None) -> None:
        own = next(bilm.parameters()).dtype
        self.bilm = bilm
        self.dtype = own if dtype is None else dtype
        refuse_what_is_not_finite(bilm)
        stacks = [getattr(bilm, f"{direction}_lstm").layers for direction in bilm.config.directions]
        # What is kept must not know the caller's inference mode.
        with torch.inference_mode(False), torch.no_grad():
            is_own = self.dtype == own
            self.token_layer = bilm.token_layer if is_own else copy.deepcopy(bilm.token_layer).to(self.dtype)
            self.convolve = self._convolve()
            self.layers = [PackedLayer(layers, self.dtype) for layers in zip(*stacks, strict=True)]

    def _convolve(self) -> Convolve | None:
        """The kernel with this model's filters made ready once, or None for the model's own way."""
        characters = self.token_layer.characters
        if characters is None or fastest(characters.convolutions, self.bilm.device, self.dtype) is None:
            return None
        assert self.bilm.config.characters is not None
        n_chars = self.bilm.config.characters.max_characters_per_token
        filters = Filters.of(characters.convolutions, self.dtype, n_chars=n_chars)
        return lambda embedded, _: answers(embedded, filters)

    @torch.no_grad()
    def token_vectors(self, batch: CharacterBatch) -> Float[Tensor, "distinct dim"]:
        """Of a batch's distinct words; that of padding is zero."""
        device = self.bilm.device
        with torch.autocast(device.type, enabled=False), torch.backends.cudnn.flags(allow_tf32=False):
            vectors = torch.cat([self.token_layer(some.to(device), self.convolve) for some in _pieces(batch)])
        vectors[0] = 0
        return vectors

    def padded(
        self, batch: CharacterBatch, marked: Int[Tensor, "row time"], state: State, *, drop_marks: bool
    ) -> tuple[Float[Tensor, "layer row step dim"], Bool[Tensor, "row step"], State]:
        """As `BiLM.forward` with these rows of the batch's words; padding is zero."""
        rows = Rows.padded(marked.numpy(force=True), drop_marks=drop_marks)
        layers, end = self.run(self.token_vectors(batch), rows, state)
        mask = marked[:, 2:] != 0 if drop_marks else marked != 0
        return layers.view(len(layers), *mask.shape, layers.shape[2]), mask, end

    @torch.no_grad()
    def run(
        self,
        vectors: Float[Tensor, "word dim"],
        rows: Rows,
        state: State,
        *,
        n_layers: int | None = None,
        device: torch.device | None = None,
    ) -> tuple[Float[Tensor, "layer place vector"], State]:
        """The first `n_layers`, the token layer among them, on `device`, and where the rows now stand.

        `state` is (direction, layer, row, ...) cells and hidden states; those of layers that are not run stay.
        """
        n_directions, dim = len(self.bilm.config.directions), vectors.shape[1]
        check_state(state, self.bilm, n_directions=n_directions, n_rows=len(rows.index))
        device = vectors.device if device is None else device
        n_layers = self.bilm.config.n_layers if n_layers is None else n_layers
        # Row (layer * n_places + place), then direction: both halves of `dim` lie side by side. A last row takes what
        # nobody wants, so that a piece is written by one instruction.
        result = torch.zeros(n_layers * rows.n_places + 1, n_directions, dim, dtype=vectors.dtype, device=device)
        wanted = rows.places >= 0
        words = torch.from_numpy(rows.index[wanted])
        token_layer = vectors.index_select(0, words.to(vectors.device)).to(device)
        result[torch.from_numpy(rows.places[wanted]).to(device)] = token_layer[:, None]
        packing = Packing((rows.index != 0).sum(axis=1))
        if n_layers > 1 and packing.n_packed:
            run = _Run(self, vectors, rows, packing, n_lstm=n_layers - 1)
            with torch.autocast(vectors.device.type, enabled=False):
                state = run.into(result, state)
        return result[:-1].view(n_layers, rows.n_places, n_directions * dim), state


class _Run:
    """One batch's way through the LSTMs.

    The caller's rows are put in the packing's order, longest first, on the way in and back on the way out. In between
    nothing moves: a piece of steps has the same rows in the same order, so a piece goes on where the last one ended.
    """

    def __init__(self, engine: Engine, vectors: Tensor, rows: Rows, packing: Packing, *, n_lstm: int) -> None:
        self.layers, self.config = engine.layers[:n_lstm], engine.bilm.config
        self.vectors, self.rows, self.packing = vectors, rows, packing

    def into(self, result: Tensor, state: State) -> State:
        """Write the layers where they are wanted; returns the state behind the last step."""
        order, ranks = (torch.from_numpy(x).to(self.vectors.device) for x in (self.packing.order, self.packing.ranks))
        cells, hiddens = (part.index_select(2, order) for part in state)
        states = [(cells[:, i], hiddens[:, i]) for i in range(len(self.layers))]
        for words, places, part in self._pieces():
            x = self.vectors.index_select(0, words.flatten().to(self.vectors.device)).view(*words.shape, -1)
            outputs = []
            for i, layer in enumerate(self.layers):
                output, states[i] = layer(x, states[i], part)
                x = output.add_(x) if self.config.lstm.skip and i > 0 else output
                outputs.append(x)
            flat = torch.stack(outputs).flatten(0, 2).to(result.device)
            result.flatten(0, 1).index_copy_(0, places.to(result.device), flat)
        n_lstm = len(self.layers)
        ends = [torch.stack(part, dim=1).index_select(2, ranks) for part in zip(*states, strict=True)]
        cell, hidden = (torch.cat([x.to(old), old[:, n_lstm:]], dim=1) for x, old in zip(ends, state, strict=True))
        return cell, hidden

    def _pieces(self) -> Iterator[tuple[Tensor, Tensor, Packing]]:
        """Words (direction, packed) and places (layer, direction, packed) in the result, piece by piece of steps."""
        n_directions = len(self.config.directions)
        steps, rows = self.packing.steps_and_rows()
        turned = self.packing.lengths[rows] - 1 - steps
        n_places, n_lstm = self.rows.n_places, len(self.layers)
        for piece, part in self.packing.parts(self.layers[0].max_packed):
            words, places = [], []
            for d, direction in enumerate(self.config.directions):
                at = rows[piece], (turned if direction == "backward" else steps)[piece]
                words.append(self.rows.index[at])
                wanted = self.rows.places[at]
                of_layers = wanted + n_places * np.arange(1, n_lstm + 1)[:, None]
                places.append(np.where(wanted < 0, n_places * (n_lstm + 1), of_layers) * n_directions + d)
            yield torch.from_numpy(np.stack(words)), torch.from_numpy(np.stack(places, axis=1).ravel()), part


def check_state(state: State, bilm: BiLM, *, n_directions: int, n_rows: int) -> None:
    """A state is of a model's directions and layers, and of a batch's rows."""
    config = bilm.config
    rows = n_directions, config.lstm.n_layers, n_rows
    for name, part, size in (("cells", state[0], config.lstm.dim), ("hidden states", state[1], config.token_dim)):
        if tuple(part.shape) != (*rows, size):
            raise DataError(
                f"a state with {name} of {tuple(part.shape)} was given, expected (direction, layer, row, number) "
                f"{(*rows, size)}"
            )


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """What autocast asks for, where it is on and an engine can do it."""
    wanted = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    return wanted if wanted == torch.bfloat16 else None


def _pieces(batch: CharacterBatch) -> Iterator[CharacterBatch]:
    """The batch's distinct words, some at a time."""
    tables = {"characters": batch.characters, "words": batch.words}
    n_words = max(len(table) for table in tables.values() if table is not None)
    for first in range(0, n_words, WORDS_AT_ONCE):
        some = {name: None if x is None else x[first : first + WORDS_AT_ONCE] for name, x in tables.items()}
        yield dataclasses.replace(batch, **some)  # type: ignore[arg-type]


def refuse_what_is_not_finite(bilm: BiLM) -> None:
    """A weight that is not a number makes every vector one; this says which."""
    weights = {name: weight for name, weight in bilm.named_parameters() if not name.startswith("softmax.")}
    if all(bool(ok) for ok in [torch.isfinite(weight).all() for weight in weights.values()]):
        return
    bad = {name: int((~torch.isfinite(weight)).sum()) for name, weight in weights.items()}
    found = ", ".join(f"{name} has {n:,}" for name, n in bad.items() if n)
    raise WeightsError(
        f"weights that are not finite numbers: {found}", hint="the file is damaged, or its training went astray"
    )
