"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from ..embed.embedder import Embedder


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model, how it reads, and what it computes in."""

    model: Annotated[str, Parameter(name=["--model", "-m"])]
    """A bundled model, a folder, or a weights file."""
    options: Path | None = None
    """The options.json of an HDF5 file, where it does not lie beside it."""
    tokenizer: str | None = None
    """moses, whitespace or characters; by default the model's own."""
    language: str | None = None
    """Code such as de, for the tokenizer and the splitting; by default the model's own."""
    split_sentences: Annotated[bool | None, Parameter(negative="--no-split-sentences")] = None
    """Let a line hold several sentences, each run on its own."""
    state: Literal["zero", "settled", "carry"] | None = None
    """How a sentence starts: zero, settled (alike), or carry (as bilm-tf and AllenNLP)."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    precision: Literal["float32", "float64", "bfloat16"] = "float32"
    """What is computed in; bfloat16 is faster where the processor has it, and costs two decimal places."""
    batch_tokens: int = 4096
    """Tokens in one step, padding among them: bounds the memory."""
    batch_size: int = 64
    """With --state carry: sentences in one step, each going on where the one so many before it ended."""

    def load(self, *, n_layers: int | None = None) -> Embedder:
        from ..embed.embedder import load

        return load(
            (self.options, self.model) if self.options else self.model,
            state=self.state,
            device=self.device,
            precision=self.precision,
            tokenizer=self.tokenizer,
            language=self.language,
            split_sentences=self.split_sentences,
            batch_tokens=self.batch_tokens,
            batch_size=self.batch_size,
            n_layers=n_layers,
        )
