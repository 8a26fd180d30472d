"""How a model's text was cut into tokens. It is stored beside the weights, so that nobody has to remember it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """What turns raw text into this model's tokens; a list of tokens is never touched."""

    tokenizer: str = "moses"
    """`moses` (what ELMo was trained on), `whitespace` or `characters`."""

    language: str | None = None
    """Code such as `de`, for the tokenizer's abbreviations and for splitting; None reads as English does."""

    split_sentences: bool = False
    """Whether a text may hold several sentences, each run on its own."""
