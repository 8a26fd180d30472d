"""A model card, filled in as far as the run knows; what only its author knows is asked for in capitals."""

from __future__ import annotations

import json

from ..files import beside
from ..model.bilm import BiLM
from ..runs import Run
from .settings import PretrainSettings
from .store import TokenStore

_CARD = """# {name}

A bidirectional language model (ELMo) of {parameters:.1f} M parameters. LANGUAGE, DOMAIN, LICENCE: TO BE FILLED IN.

```python
import elmokit

embedder = elmokit.load("{name}")
embedder.embed(["A sentence.", ["A", "tokenised", "one", "."]])[0].layers
```

## Data

{tokens:,} tokens in {sentences:,} sentences: {sources}. SOURCE AND LICENCE OF THE TEXT: TO BE FILLED IN.
Tokenizer `{tokenizer}`, language {language}. {words:,} words are predicted; {unknown:.1%} of the tokens are not among
them and are predicted as `<UNK>`.

## Training

{epochs:.1f} epochs, {seen:,} words in {minutes:.1f} minutes, {optimizer} at {rate:g}, state `{state}`, seed {seed}.
`settings.toml` repeats the run.

## Perplexity

| on the validation text | forward | backward | geometric mean | bits a character |
|---|---|---|---|---|
| full vocabulary, {predictions:,} predictions each way | {forward} | {backward} | {perplexity:.1f} | {bits:.3f} |

## Limits

WHAT THE TEXT LACKS, AND WHAT THE MODEL SHOULD NOT BE USED FOR: TO BE FILLED IN.
"""


def write_card(run: Run, settings: PretrainSettings, bilm: BiLM, store: TokenStore) -> None:
    """README.md in the run folder."""
    result = json.loads(run.result_file.read_text(encoding="utf-8"))
    text = bilm.config.text
    card = _CARD.format(
        name=run.folder.name,
        parameters=bilm.n_parameters() / 1e6,
        tokens=store.n_tokens,
        sentences=store.n_sentences,
        sources=", ".join(settings.corpus.paths),
        tokenizer=text.tokenizer,
        language=text.language or "not said",
        words=store.n_words,
        unknown=store.oov_share,
        epochs=result["epochs"],
        seen=result["words"],
        minutes=result["seconds"] / 60,
        optimizer=settings.optimizer.name,
        rate=settings.optimizer.learning_rate,
        state=bilm.config.state,
        seed=settings.seed,
        predictions=result["tokens"],
        forward=_rounded(result["forward"]),
        backward=_rounded(result["backward"]),
        perplexity=result["perplexity"],
        bits=result["bits_per_character"],
    )
    with beside(run.folder / "README.md") as temporary:
        temporary.write_text(card, encoding="utf-8")


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
