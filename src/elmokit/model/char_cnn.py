"""Tokens to vectors, without context: convolutions over characters, highways, and a projection.

What is special: padding characters are real inputs (every position is convolved), the activation comes behind the
maximum, and a highway's gate multiplies the *transformed* part. A model may read words, or words beside characters
([word ; characters] before the projection, as ELMoForManyLangs has it).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from .batch import CharacterBatch
from .config import BiLMConfig, CharCNNConfig

WORDS_AT_ONCE = 1024
"""Convolutions keep every position of every filter, about 400 kB for a word of the original model: bound it."""


Convolve = Callable[[Tensor, nn.ModuleList], Tensor]


class Highway(nn.Module):
    """g * relu(transform(x)) + (1 - g) * x, with g = sigmoid(gate(x))."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)
        for linear in (self.gate, self.transform):
            nn.init.normal_(linear.weight, std=dim**-0.5)
            nn.init.zeros_(linear.bias)
        nn.init.constant_(self.gate.bias, -2.0)  # as published: a fresh highway mostly carries

    def forward(self, x: Float[Tensor, "word dim"]) -> Float[Tensor, "word dim"]:
        gate = torch.sigmoid(self.gate(x))
        return gate * F.relu(self.transform(x)) + (1 - gate) * x


class CharCNN(nn.Module):
    """Rows of character ids to one vector each."""

    def __init__(self, config: CharCNNConfig, *, n_highway: int) -> None:
        super().__init__()
        self.relu = config.activation == "relu"
        self.embedding = nn.Embedding(config.n_characters, config.dim, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(config.dim, n, width) for width, n in config.filters)
        self.highways = nn.ModuleList(Highway(config.output_dim) for _ in range(n_highway))
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        nn.init.zeros_(self.embedding.weight[0])
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d) and convolution.bias is not None
            if self.relu:
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                nn.init.normal_(convolution.weight, std=(convolution.kernel_size[0] * convolution.in_channels) ** -0.5)
            nn.init.zeros_(convolution.bias)

    def forward(self, ids: Int[Tensor, "word char"], convolve: Convolve | None = None) -> Float[Tensor, "word filter"]:
        """`convolve` is a faster way to do what `convolved` does."""
        x = (convolve or convolved)(self.embedding(ids), self.convolutions)
        x = F.relu(x) if self.relu else torch.tanh(x)
        for highway in self.highways:
            x = highway(x)
        return x


def convolved(embedded: Float[Tensor, "word char dim"], convolutions: nn.ModuleList) -> Float[Tensor, "word filter"]:
    """The largest answer of each filter over a word's characters."""
    some = torch.split(embedded.transpose(1, 2), WORDS_AT_ONCE)
    return torch.cat([torch.cat([convolution(x).amax(dim=2) for convolution in convolutions], dim=1) for x in some])


class TokenLayer(nn.Module):
    """Each distinct word of a batch to its vector: layer 0 of the biLM."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.characters = CharCNN(config.characters, n_highway=config.n_highway) if config.characters else None
        self.words = nn.Embedding(config.words.n_words + 1, config.words.dim, padding_idx=0) if config.words else None
        self.projection = nn.Linear(config.read_dim, config.token_dim) if config.projection else None
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=config.read_dim**-0.5)
            nn.init.zeros_(self.projection.bias)

    def forward(self, batch: CharacterBatch, convolve: Convolve | None = None) -> Float[Tensor, "distinct dim"]:
        parts = []
        if self.words is not None:
            parts.append(self.words(batch.words))
        if self.characters is not None:
            assert batch.characters is not None
            parts.append(self.characters(batch.characters, convolve))
        x = torch.cat(parts, dim=1)
        return x if self.projection is None else self.projection(x)
