"""TensorFlow's layout of a biLM as one reversible table: reading goes down it, writing goes back up.

What differs from ours: matrices are transposed; a cell's input and recurrent weights are one matrix; its gates stand
in the order input, cell, forget, output; and an embedding has no row for padding. Every change of layout moves numbers
and computes none, so there and back is equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..model.config import BiLMConfig

Shape = tuple[int, ...]


class Layout(Protocol):
    """How one of their tensors holds one or two of ours."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]: ...
    def write(self, *ours: Tensor) -> Tensor: ...


class Same:
    """The same numbers in the same places."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return (theirs,)

    def write(self, *ours: Tensor) -> Tensor:
        return ours[0]


class Transposed:
    """(input, output) against (output, input)."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return (theirs.t(),)

    def write(self, *ours: Tensor) -> Tensor:
        return ours[0].t()


class Convolution:
    """(1, width, character dim, filter) against (filter, character dim, width)."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return (theirs.squeeze(0).permute(2, 1, 0),)

    def write(self, *ours: Tensor) -> Tensor:
        return ours[0].permute(2, 1, 0).unsqueeze(0)


class Embedding:
    """Our row 0 is padding, theirs is the first entry."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return (torch.cat([theirs.new_zeros(1, theirs.shape[1]), theirs]),)

    def write(self, *ours: Tensor) -> Tensor:
        return ours[0][1:]


class GateBias:
    """The gates in another order."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return (_swap_gates(theirs, dim=0),)

    def write(self, *ours: Tensor) -> Tensor:
        return _swap_gates(ours[0], dim=0)


class GateMatrix:
    """(input + recurrent, gate) against (gate, input) and (gate, recurrent)."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        inputs, recurrent = theirs.t().chunk(2, dim=1)
        return _swap_gates(inputs, dim=0), _swap_gates(recurrent, dim=0)

    def write(self, *ours: Tensor) -> Tensor:
        return torch.cat([_swap_gates(part, dim=0) for part in ours], dim=1).t()


@dataclass(frozen=True)
class Entry:
    """One of their tensors by its name, and the names of ours that it holds."""

    theirs: str
    ours: tuple[str, ...]
    layout: Layout

    def their_shape(self, our_shapes: Sequence[Shape]) -> Shape:
        return tuple(self.layout.write(*(torch.empty(shape, device="meta") for shape in our_shapes)).shape)


def bilm_entries(config: BiLMConfig) -> list[Entry]:
    """The table for a model of this shape, by the names of bilm-tf's HDF5 files."""
    entries = []
    if config.words is not None:
        entries.append(Entry("embedding", ("token_layer.words.weight",), Embedding()))
    if config.characters is not None:
        entries += _character_entries(config, n_filters=len(config.characters.filters))
    if config.projection:
        entries += _linear("CNN_proj/{}_proj", "token_layer.projection")
    for direction in config.directions:
        for layer in range(config.lstm.n_layers):
            entries += _lstm_entries(config, direction, layer)
    return entries


def _character_entries(config: BiLMConfig, *, n_filters: int) -> list[Entry]:
    ours = "token_layer.characters"
    entries = [Entry("char_embed", (f"{ours}.embedding.weight",), Embedding())]
    for i in range(n_filters):
        entries.append(Entry(f"CNN/W_cnn_{i}", (f"{ours}.convolutions.{i}.weight",), Convolution()))
        entries.append(Entry(f"CNN/b_cnn_{i}", (f"{ours}.convolutions.{i}.bias",), Same()))
    for i in range(config.n_highway):
        # What bilm-tf calls carry is the gate of the transformed part.
        entries += _linear(f"CNN_high_{i}/{{}}_carry", f"{ours}.highways.{i}.gate")
        entries += _linear(f"CNN_high_{i}/{{}}_transform", f"{ours}.highways.{i}.transform")
    return entries


def _lstm_entries(config: BiLMConfig, direction: str, layer: int) -> list[Entry]:
    theirs = f"RNN_{int(direction == 'backward')}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    ours = f"{direction}_lstm.layers.{layer}"
    entries = [
        Entry(f"{theirs}/W_0", (f"{ours}.weight_ih", f"{ours}.weight_hh"), GateMatrix()),
        Entry(f"{theirs}/B", (f"{ours}.bias",), GateBias()),
    ]
    if config.lstm.projection:
        entries.append(Entry(f"{theirs}/W_P_0", (f"{ours}.weight_hr",), Transposed()))
    return entries


def _linear(theirs: str, ours: str) -> list[Entry]:
    return [
        Entry(theirs.format("W"), (f"{ours}.weight",), Transposed()),
        Entry(theirs.format("b"), (f"{ours}.bias",), Same()),
    ]


def _swap_gates(x: Tensor, dim: int) -> Tensor:
    """i, j, f, o to i, f, g, o and back: the second and third quarter change places."""
    first, second, third, fourth = x.chunk(4, dim=dim)
    return torch.cat([first, third, second, fourth], dim=dim)
