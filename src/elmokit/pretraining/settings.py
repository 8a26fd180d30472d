"""What one pretraining run does: the tables of a recipe's TOML file, each a dataclass that checks itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..model.config import BiLMConfig
from ..settings import check


@dataclass(frozen=True, kw_only=True)
class CorpusSettings:
    """Which text, and which words of it are predicted. How it is tokenised is the model's own (`bilm.text`)."""

    paths: tuple[str, ...] = ()
    """Files, folders or globs, compressed or not; - is standard input."""
    valid: tuple[str, ...] = ()
    """Text to choose the best model by; without, the last `valid_share` of the documents is kept for it."""
    valid_share: float = 0.01
    max_words: int = 100_000
    """Words of the vocabulary at most, its three marks among them; the commonest are kept."""
    min_count: int = 2
    """Words seen less often are predicted as `<UNK>`, which is so learned. They are still read by their characters."""
    vocabulary: str | None = None
    """A vocabulary file to use as it is."""
    fit_token_length: bool = True
    """Set `max_characters_per_token` so that 99.9 % of the tokens fit."""
    workers: int = 0
    """Processes that tokenise; 0 is one for each core."""

    def __post_init__(self) -> None:
        check(
            (0 <= self.valid_share < 1, f"valid_share must be in [0, 1), found {self.valid_share}"),
            (self.max_words > 3, f"max_words must be more than 3, found {self.max_words}"),
            (self.min_count > 0, f"min_count must be positive, found {self.min_count}"),
            (self.workers >= 0, f"workers must not be negative, found {self.workers}"),
        )


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """What is minimised."""

    softmax: Literal["auto", "full", "sampled"] = "auto"
    """`auto` is full up to `full_up_to` words, and sampled above."""
    n_samples: int = 8192
    """Words drawn for each direction and step, against which the right one is told apart."""
    full_up_to: int = 20_000
    dropout: float = 0.1
    """On each layer's input and on the output, outside the skip connection, as published."""

    def __post_init__(self) -> None:
        check(
            (self.n_samples > 0, f"n_samples must be positive, found {self.n_samples}"),
            (0 <= self.dropout < 1, f"dropout must be in [0, 1), found {self.dropout}"),
        )


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How much text a step sees."""

    rows: int = 128
    """Streams of sentences side by side."""
    steps: int = 20
    """Tokens of each row in one step: gradients reach no further back."""
    accumulate: int = 1
    """Batches whose gradients are added up for one step."""
    block_tokens: int = 16_000_000
    """Tokens that are shuffled and laid out together: bounds the memory."""

    def __post_init__(self) -> None:
        for name in ("rows", "steps", "accumulate", "block_tokens"):
            check((getattr(self, name) > 0, f"{name} must be positive, found {getattr(self, name)}"))


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """How weights change."""

    name: Literal["adamw", "adagrad"] = "adamw"
    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    beta2: float = 0.98
    warmup: float = 0.05
    """Share of the run in which the rate rises."""
    decay_to: float = 0.02
    """What the rate has fallen to at the end, as a share of the highest; 1 keeps it."""
    clip_norm: float = 10.0
    loss_scale: float = 1.0
    """Multiplies the loss: the published training multiplied by its 20 steps before clipping."""

    def __post_init__(self) -> None:
        check(
            *(
                (getattr(self, name) > 0, f"{name} must be positive, found {getattr(self, name)}")
                for name in ("learning_rate", "clip_norm", "loss_scale")
            ),
            (self.weight_decay >= 0, f"weight_decay must not be negative, found {self.weight_decay}"),
            (0 <= self.beta2 < 1, f"beta2 must be in [0, 1), found {self.beta2}"),
            (0 <= self.warmup < 1, f"warmup must be in [0, 1), found {self.warmup}"),
            (0 <= self.decay_to <= 1, f"decay_to must be in [0, 1], found {self.decay_to}"),
        )


_ENDS_AND_INTERVALS = (
    "steps",
    "minutes",
    "epochs",
    "evaluate_every",
    "valid_tokens",
    "last_valid_tokens",
    "patience",
)


@dataclass(frozen=True, kw_only=True)
class ScheduleSettings:
    """When to stop, look and save. What is not set does not count; at least one end must be."""

    steps: int | None = None
    minutes: float | None = None
    """Wall time, preparation included, over all resumes."""
    epochs: float | None = None
    evaluate_every: int = 500
    """Steps between evaluations; each one is a checkpoint too."""
    valid_tokens: int = 50_000
    """Tokens of the validation text that an evaluation during training reads."""
    last_valid_tokens: int | None = None
    """Tokens that the last one reads; by default all."""
    patience: int | None = None
    """Evaluations without a better perplexity until the run stops."""

    def __post_init__(self) -> None:
        check(
            *(
                (value is None or value > 0, f"{name} must be positive, found {value}")
                for name in (
                    "steps",
                    "minutes",
                    "epochs",
                    "evaluate_every",
                    "valid_tokens",
                    "last_valid_tokens",
                    "patience",
                )
                for value in [getattr(self, name)]
            ),
            (
                self.steps is not None or self.minutes is not None or self.epochs is not None,
                "one of steps, minutes, epochs must be set",
            ),
        )


@dataclass(frozen=True, kw_only=True)
class StartSettings:
    """What a run starts from, where it adapts a model instead of beginning at random."""

    model: str | None = None
    """Any source that `elmokit.load` takes. Its shape is kept; its softmax, if any, is mapped to the new words."""
    options: str | None = None
    """Its options.json, where it does not lie beside it."""
    general: tuple[str, ...] = ()
    """Text of another kind, to measure by what is forgotten."""
    frozen_share: float = 0.05
    """Share of the run in which the softmax alone learns."""
    frozen_share_without_softmax: float = 0.15
    """The same where the softmax is new: a biLM must not follow one that knows nothing."""
    rate_decay: float = 0.9
    """How much slower each layer learns than the one above it, the softmax being the top."""

    def __post_init__(self) -> None:
        check(
            (0 <= self.frozen_share < 1, f"frozen_share must be in [0, 1), found {self.frozen_share}"),
            (0 < self.rate_decay <= 1, f"rate_decay must be in (0, 1], found {self.rate_decay}"),
        )


@dataclass(frozen=True, kw_only=True)
class PretrainSettings:
    """A whole run. The same settings on the same text and machine give the same model."""

    bilm: BiLMConfig
    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: ScheduleSettings
    start: StartSettings = field(default_factory=StartSettings)
    seed: int = 0
    device: str = "auto"
    tensorboard: bool = False
    """Curves for TensorBoard in the run folder, beside metrics.jsonl."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What matrices are multiplied in; weights and sums stay float32. `auto` is bfloat16 where the processor has it."""

    def __post_init__(self) -> None:
        nothing_to_choose_by = not self.corpus.valid and self.corpus.valid_share == 0
        check(
            (0 <= self.seed < 1 << 32, f"seed must be in 0 .. 2^32 - 1, found {self.seed}"),
            (not nothing_to_choose_by, "without corpus.valid, corpus.valid_share must not be 0"),
        )
