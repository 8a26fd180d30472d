"""`elmokit info`: what a model is."""

from __future__ import annotations

import dataclasses
import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .embed import opened
from .wording import counted, millions

if TYPE_CHECKING:
    from ..text.facts import TextFacts
    from ..weights.bundle import WeightBundle


def info(source: str, /, *, options: Path | None = None, text: str | None = None, json: bool = False) -> None:
    """Say what a model is: its family, shape, origin, and what is unusual about it.

    Parameters
    ----------
    source
        A bundled model, a folder, or a weights file.
    options
        The options.json of an HDF5 file, where it does not lie beside it.
    text
        A text file: say also what of it the model would not see.
    json
        Print one JSON object instead.
    """
    from ..weights.load import read_weights

    bundle = read_weights((options, source) if options else source)
    seen = None if text is None else _text_facts(bundle, text)
    if json:
        about = facts(bundle) | ({} if seen is None else {"text": dataclasses.asdict(seen)})
        print(json_module.dumps(about, indent=2, ensure_ascii=False))
    else:
        print(_readable(bundle) if seen is None else f"{_readable(bundle)}\n{_readable_text(seen)}")


def _text_facts(bundle: WeightBundle, text: str) -> TextFacts:
    """Of a text, read as the model reads it."""
    from ..text.facts import text_facts
    from ..text.lines import lines
    from ..text.tokens import tokenizer

    config = bundle.config
    cut = tokenizer(config.text.tokenizer, config.text.language)
    limit = config.characters.max_characters_per_token if config.characters else sys.maxsize
    with opened(text) as file:
        return text_facts((cut(line).tokens for line in lines(file, text)), limit)


def _readable_text(seen: TextFacts) -> str:
    return (
        f"text: {counted(seen.n_tokens, 'token')}, {seen.n_distinct:,} of them distinct, in "
        f"{counted(seen.n_sentences, 'line')} · {seen.share_over_limit:.2%} are longer than a character row · "
        f"{seen.n_with_unknown_bytes:,} with characters that UTF-8 cannot hold · "
        f"{seen.n_sentence_marks:,} read as a sentence's mark"
    )


def facts(bundle: WeightBundle) -> dict[str, Any]:
    """What `--json` prints."""
    from ..settings import to_plain

    origin = bundle.provenance
    language = bundle.config.text.language
    return {
        "family": origin.format,
        "source": origin.source,
        "parameters": bundle.n_parameters(),
        "layers": bundle.config.n_layers,
        "dim": bundle.config.dim,
        "languages": [language] if language else [],
        "softmax": bundle.config.softmax is not None,
        "vocabulary": len(bundle.vocabulary) if bundle.vocabulary else None,
        "sha256": origin.sha256,
        "options": origin.options,
        "unusual": list(origin.notes),
        "converted_from": dict(origin.converted_from),
        "training": dict(origin.training),
        "config": to_plain(bundle.config),
    }


def _readable(bundle: WeightBundle) -> str:
    config, origin = bundle.config, bundle.provenance
    lines = [f"{origin.format} · {_shape(bundle)} · {millions(bundle.n_parameters())} parameters"]
    lines.append(
        f"reads {_reads(bundle)} · tokenizer {config.text.tokenizer} · language {config.text.language or 'not said'}"
    )
    if origin.converted_from:
        before = origin.converted_from
        lines.append(f"converted from {before['format']} {before['source']}, sha256 {before['sha256'] or 'not known'}")
    if origin.options:
        lines.append(f"options: {origin.options}")
    lines.append(f"trained with state {config.state}; a sentence starts from {_start(config.state)} by default")
    if config.softmax is None:
        lines.append("carries no softmax: perplexity and substitutes are not available")
    lines += [f"unusual: {note}" for note in origin.notes]
    if origin.training:
        lines.append("training: " + ", ".join(f"{key} {value}" for key, value in origin.training.items()))
    if origin.sha256:
        lines.append(f"sha256 {origin.sha256}")
    return "\n".join(lines)


def _shape(bundle: WeightBundle) -> str:
    config = bundle.config
    lstm = config.lstm
    projected = f", projection {config.token_dim}" if lstm.projection else ""
    directions = "" if len(config.directions) == 2 else f", {config.directions[0]} only"
    return f"{counted(lstm.n_layers, 'LSTM layer')}, {lstm.dim} cells{projected}{directions} · vectors of {config.dim}"


def _reads(bundle: WeightBundle) -> str:
    config, parts = bundle.config, []
    if config.words:
        parts.append(f"{config.words.n_words:,} words")
    if config.characters:
        cnn = config.characters
        parts.append(
            f"characters ({cnn.output_dim} filters, {counted(config.n_highway, 'highway')}, "
            f"{cnn.max_characters_per_token} a token)"
        )
    return " and ".join(parts)


def _start(state: str) -> str:
    return "zero" if state == "zero" else "the settled state"
