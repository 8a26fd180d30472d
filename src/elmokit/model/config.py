"""The shape of a biLM: all that its tensors alone do not say, and enough to build it without them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..settings import check
from ..text.alphabet import MIN_CHARACTERS_PER_TOKEN, N_IDS
from ..text.config import TextConfig

State = Literal["zero", "settled", "carry"]
"""How a sentence starts: from zero, from the state after a neutral sentence, or where the row's last one ended."""

Activation = Literal["relu", "tanh"]
Direction = Literal["forward", "backward"]
_DIRECTIONS = (("forward", "backward"), ("forward",), ("backward",))

PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class CharCNNConfig:
    """How a token is read by its characters."""

    dim: int = 16
    """Size of a character's embedding."""
    filters: tuple[tuple[int, int], ...] = PUBLISHED_FILTERS
    """Width in characters, and number, of each convolution."""
    activation: Activation = "relu"
    max_characters_per_token: int = 50
    """Length of a character row, its begin and end among them."""
    n_characters: int = N_IDS
    """Rows of the character embedding, row 0 (padding) among them."""

    def __post_init__(self) -> None:
        length, shortest = self.max_characters_per_token, MIN_CHARACTERS_PER_TOKEN
        widest = max((width for width, _ in self.filters), default=0)
        check(
            *_positive(dim=self.dim),
            (len(self.filters) > 0, "filters must not be empty"),
            (all(w > 0 and n > 0 for w, n in self.filters), f"filters must be positive, found {self.filters}"),
            (length >= shortest, f"max_characters_per_token must be at least {shortest}, found {length}"),
            (widest <= length, f"max_characters_per_token is {length}, less than a filter is wide: {self.filters}"),
            (self.n_characters >= N_IDS, f"n_characters must be at least {N_IDS}, found {self.n_characters}"),
        )

    @property
    def output_dim(self) -> int:
        return sum(n for _, n in self.filters)


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """How a token is read as a whole word."""

    n_words: int
    """Words of the vocabulary; the embedding has one row more, for padding."""
    dim: int

    def __post_init__(self) -> None:
        check(*_positive(n_words=self.n_words, dim=self.dim))


@dataclass(frozen=True, kw_only=True)
class LSTMConfig:
    """The recurrence, the same in each direction and layer."""

    dim: int = 4096
    """Cells."""
    n_layers: int = 2
    projection: bool = True
    """Whether cells are projected to `token_dim`; without, `dim` is `token_dim`."""
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    """Bound of the projected output; has no effect without a projection."""
    skip: bool = True
    """Whether a layer's input is added to its output, from the second layer on."""
    forget_bias: float = 1.0
    """Added to the forget gate beside the stored bias: 1 as TensorFlow stores it, 0 as PyTorch does."""

    def __post_init__(self) -> None:
        check(
            *_positive(dim=self.dim, n_layers=self.n_layers),
            (self.cell_clip is None or self.cell_clip > 0, f"cell_clip must be positive or absent: {self.cell_clip}"),
            (self.proj_clip is None or self.proj_clip > 0, f"proj_clip must be positive or absent: {self.proj_clip}"),
        )


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig:
    """The output layer, which both directions share."""

    n_words: int
    tied: bool = False
    """Whether its weights are the word embedding's (a model that reads words)."""

    def __post_init__(self) -> None:
        check(*_positive(n_words=self.n_words))


@dataclass(frozen=True, kw_only=True)
class BiLMConfig:
    """The shape of a biLM. `small`, `medium` and `original` are the published ones, `tiny` is for tests."""

    token_dim: int = 512
    """Size of a token's vector, and of each direction's output."""
    characters: CharCNNConfig | None = field(default_factory=CharCNNConfig)
    words: WordsConfig | None = None
    n_highway: int = 2
    """Highway layers behind the convolutions."""
    projection: bool = True
    """Whether what was read of a token is projected to `token_dim`; without, its size is `token_dim`."""
    lstm: LSTMConfig = field(default_factory=LSTMConfig)
    directions: tuple[Direction, ...] = ("forward", "backward")
    softmax: SoftmaxConfig | None = None
    state: State = "carry"
    """How sentences started in training. A model trained with `carry` is used with `settled`."""
    text: TextConfig = field(default_factory=TextConfig)

    def __post_init__(self) -> None:
        dim, read, cells = self.token_dim, self.read_dim, self.lstm.dim
        tied = self.softmax is not None and self.softmax.tied
        can_tie = self.words is not None and self.words.dim == dim
        check(
            *_positive(token_dim=dim),
            (self.n_highway >= 0, f"n_highway must not be negative, found {self.n_highway}"),
            (self.characters is not None or self.words is not None, "a model reads characters, words or both"),
            (self.directions in _DIRECTIONS, f"directions are forward, backward or both, in order: {self.directions}"),
            (self.projection or read == dim, f"without a projection token_dim must be {read}, found {dim}"),
            (self.lstm.projection or cells == dim, f"without lstm.projection lstm.dim must be {dim}, found {cells}"),
            (can_tie or not tied, "a tied softmax needs word embeddings of size token_dim"),
        )

    @property
    def read_dim(self) -> int:
        """Size of what is read of a token, before the projection."""
        characters = self.characters.output_dim if self.characters else 0
        return characters + (self.words.dim if self.words else 0)

    @property
    def n_layers(self) -> int:
        """Layers a user sees: the token layer (layer 0) and the LSTM's."""
        return self.lstm.n_layers + 1

    @property
    def dim(self) -> int:
        """Size of a layer's vectors: the directions side by side."""
        return self.token_dim * len(self.directions)

    @classmethod
    def tiny(cls) -> BiLMConfig:
        """Small enough for a test to train."""
        characters = CharCNNConfig(dim=4, filters=((1, 8), (2, 16), (3, 16)), max_characters_per_token=24)
        return cls(token_dim=16, characters=characters, n_highway=1, lstm=LSTMConfig(dim=32))

    @classmethod
    def small(cls) -> BiLMConfig:
        """13.6 M parameters."""
        return cls(token_dim=128, n_highway=1, lstm=LSTMConfig(dim=1024))

    @classmethod
    def medium(cls) -> BiLMConfig:
        """28.0 M parameters."""
        return cls(token_dim=256, n_highway=1, lstm=LSTMConfig(dim=2048))

    @classmethod
    def original(cls) -> BiLMConfig:
        """93.6 M parameters: the model of the paper."""
        return cls()


def _positive(**sizes: int) -> list[tuple[bool, str]]:
    return [(size > 0, f"{name} must be positive, found {size}") for name, size in sizes.items()]
