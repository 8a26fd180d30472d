"""The language model's own answers: how likely is each token, given all before it, and given all behind it.

Exact over the whole vocabulary. A token that the vocabulary does not have is predicted as `<UNK>`, and still read by
its characters. In each direction the sentence's end is predicted too: `</S>` forward, `<S>` backward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DataError
from ..kernels.engine import Engine
from ..model.batch import BiLMState
from ..model.bilm import BiLM
from ..text.batching import buckets, windows
from ..text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

Start = Literal["zero", "settled"]

TEXT_UNKNOWN = "<unk>"
"""How a corpus such as WikiText writes it."""

PIECE_BYTES = 64 << 20
"""Probabilities that exist at a time."""


@dataclass(frozen=True)
class TokenLogProbs:
    """Natural logs for one sentence: `forward` of its tokens and `</S>`, `backward` of `<S>` and its tokens."""

    forward: Float[Tensor, "predicted"] | None
    backward: Float[Tensor, "predicted"] | None


@dataclass(frozen=True, eq=False)
class TokenScores:
    """A sentence's tokens and the natural log of how likely each is, given all before it or all behind it.

    What a direction lacks is None. `forward_end` is of `</S>` behind the last token, `backward_end` of `<S>` before the
    first.
    """

    tokens: tuple[str, ...]
    forward: NDArray[np.float64] | None
    backward: NDArray[np.float64] | None
    forward_end: float | None
    backward_end: float | None

    @classmethod
    def of(cls, tokens: Sequence[str], found: TokenLogProbs) -> TokenScores:
        forward = None if found.forward is None else found.forward.double().numpy()
        backward = None if found.backward is None else found.backward.double().numpy()
        return cls(
            tokens=tuple(tokens),
            forward=None if forward is None else forward[:-1],
            backward=None if backward is None else backward[1:],
            forward_end=None if forward is None else float(forward[-1]),
            backward_end=None if backward is None else float(backward[0]),
        )

    def surprisal(self, direction: Literal["forward", "backward"] = "forward") -> NDArray[np.float64]:
        """Bits: -log2 p of each token."""
        values = self.forward if direction == "forward" else self.backward
        if values is None:
            raise DataError(f"this model has no {direction} direction", hint="ask for the other one")
        return -values / math.log(2)


def log_probs(
    engine: Engine, sentences: Sequence[Sequence[str]], *, start: Start, batch_tokens: int = 4096
) -> Iterator[tuple[int, TokenLogProbs]]:
    """(position, log probabilities) of each sentence, in the order of the batches.

    The engine's precision is that of the LSTMs; probabilities are worked out in the weights' own.
    """
    bilm, vocabulary = engine.bilm, vocabulary_of(engine.bilm)
    for batch in buckets([len(sentence) + 2 for sentence in sentences], batch_tokens):
        chosen = [sentences[i] for i in batch]
        with torch.autocast(bilm.device.type, enabled=False):
            found = _run(engine, vocabulary, chosen, bilm.start(start, len(chosen)))
        yield from zip(batch, found, strict=True)


def vocabulary_of(bilm: BiLM) -> Vocabulary:
    """The words that the softmax predicts."""
    bilm.softmax_weights()
    if bilm.vocabulary is None:
        raise DataError("this model has a softmax and no vocabulary", hint="put its vocab.txt beside the weights")
    return bilm.vocabulary


@torch.inference_mode()
def _run(
    engine: Engine, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]], state: BiLMState
) -> list[TokenLogProbs]:
    bilm = engine.bilm
    marked = [[BEGIN, *map(_as_read, sentence), END] for sentence in sentences]
    batch = bilm.encode(marked)
    layers, mask, _ = engine.padded(batch, batch.index, (state.cell, state.hidden), drop_marks=False)
    targets = torch.zeros(mask.shape, dtype=torch.long, device=bilm.device)
    for row, sentence in enumerate(marked):
        targets[row, : len(sentence)] = torch.tensor(_predicted(vocabulary, sentence))
    top = layers[-1].to(bilm.softmax_weights()[0].dtype)
    halves = dict(zip(bilm.config.directions, top.chunk(len(bilm.config.directions), dim=2), strict=True))
    found = {}
    if "forward" in halves:
        found["forward"] = _gathered(bilm, halves["forward"][:, :-1], targets[:, 1:])
    if "backward" in halves:
        found["backward"] = _gathered(bilm, halves["backward"][:, 1:], targets[:, :-1])
    return [
        TokenLogProbs(*(found[d][i, : len(s) - 1].cpu() if d in found else None for d in ("forward", "backward")))
        for i, s in enumerate(marked)
    ]


def _as_read(token: str) -> str:
    """`<unk>` in a text is the vocabulary's `<UNK>`, as in training."""
    return UNKNOWN if token == TEXT_UNKNOWN else token


def _predicted(vocabulary: Vocabulary, marked: Sequence[str]) -> list[int]:
    """The ids to predict; a sentence's mark within it is no border, and a word like any other that is not known."""
    inner = [UNKNOWN if token in (BEGIN, END) else token for token in marked[1:-1]]
    return vocabulary.ids([marked[0], *inner, marked[-1]])


def _gathered(
    bilm: BiLM, hidden: Float[Tensor, "batch time dim"], targets: Int[Tensor, "batch time"]
) -> Float[Tensor, "batch time"]:
    """Log p of each target; the whole distribution exists for a few tokens at a time."""
    weight, bias = bilm.softmax_weights()
    n_rows = max(1, PIECE_BYTES // (weight.element_size() * len(weight)))
    pieces = zip(torch.split(hidden.flatten(0, 1), n_rows), torch.split(targets.flatten(), n_rows), strict=True)
    return torch.cat([_picked(h @ weight.t() + bias, t) for h, t in pieces]).view(targets.shape)


def _picked(logits: Float[Tensor, "row word"], targets: Int[Tensor, "row"]) -> Float[Tensor, "row"]:
    return logits.gather(1, targets[:, None]).squeeze(1) - logits.logsumexp(dim=1)


@torch.inference_mode()
def substitutes(
    bilm: BiLM, tokens: Sequence[str], position: int, *, n: int = 10, start: Start = "settled"
) -> list[tuple[str, float]]:
    """The likeliest words in place of a token, from what stands on either side of it and not from itself.

    p(word) is proportional to p(word | left) p(word | right), over the vocabulary without its marks.
    """
    if n < 1:
        raise DataError(f"{n} substitutes were asked for", hint="ask for one or more")
    if not 0 <= position < len(tokens):
        raise DataError(
            f"position {position} is not in a sentence of {len(tokens)} tokens", hint="positions begin at 0"
        )
    vocabulary = vocabulary_of(bilm)
    top = bilm(bilm.encode([[BEGIN, *map(_as_read, tokens), END]]), bilm.start(start, 1), marks="none").layers[-1, 0]
    weight, bias = bilm.softmax_weights()
    total = torch.zeros_like(bias)
    # The token stands at position + 1 between the marks: its neighbours' states have not seen it.
    for half, direction in zip(top.chunk(len(bilm.config.directions), dim=1), bilm.config.directions, strict=True):
        seen = half[position] if direction == "forward" else half[position + 2]
        total += torch.log_softmax(weight @ seen + bias, dim=0)
    total[torch.tensor(vocabulary.ids([BEGIN, END, UNKNOWN]), device=total.device)] = -torch.inf
    best = total.softmax(dim=0).topk(min(n, len(vocabulary) - 3))
    return [(vocabulary.words[i], float(p)) for p, i in zip(best.values, best.indices.tolist(), strict=True)]


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """How well a model predicts a text; lower is better. What a direction lacks is None."""

    forward: float | None
    backward: float | None
    perplexity: float
    """The geometric mean of both directions."""
    tokens: int
    """Predictions in each direction, a sentence's end among them."""
    oov_share: float
    """Share of the tokens that the vocabulary does not have."""
    bits_per_character: float
    """An unknown word costs p(`<UNK>`) and 8 bits for each of its bytes and its end, so that vocabularies compare."""


class PerplexityCounter:
    """Adds up sentences; the whole text or one document, as the caller likes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.nats: dict[str, float] = {}
        self.n_predicted = self.n_tokens = self.n_unknown = self.n_characters = self.n_spelled = 0

    def add(self, sentence: Sequence[str], found: TokenLogProbs) -> None:
        for direction, values in (("forward", found.forward), ("backward", found.backward)):
            if values is not None:
                self.nats[direction] = self.nats.get(direction, 0.0) - float(values.double().sum())
        self.n_predicted += len(sentence) + 1
        self.n_tokens += len(sentence)
        self.n_characters += sum(map(len, sentence)) + len(sentence) + 1
        for token in sentence:
            if _as_read(token) == UNKNOWN:
                self.n_unknown += 1  # there is no other spelling of it
            elif token not in self.vocabulary or token in (BEGIN, END):
                self.n_unknown += 1
                self.n_spelled += len(token.encode("utf-8", "ignore")) + 1

    def result(self) -> Perplexity:
        if not self.nats:
            raise DataError("no sentence to predict: the text is empty", hint="give a text with at least one word")
        nats = {direction: total / self.n_predicted for direction, total in self.nats.items()}
        mean = sum(nats.values()) / len(nats)
        bits = mean * self.n_predicted / math.log(2) + 8 * self.n_spelled
        return Perplexity(
            forward=_exp(nats["forward"]) if "forward" in nats else None,
            backward=_exp(nats["backward"]) if "backward" in nats else None,
            perplexity=_exp(mean),
            tokens=self.n_predicted,
            oov_share=self.n_unknown / max(1, self.n_tokens),
            bits_per_character=bits / self.n_characters,
        )


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf


def perplexity(
    engine: Engine, sentences: Iterable[Sequence[str]], *, start: Start, batch_tokens: int = 4096
) -> Perplexity:
    """Of a whole text, in one pass and bounded memory."""
    counter = PerplexityCounter(vocabulary_of(engine.bilm))
    for window in windows(sentences, lambda sentence: len(sentence) + 2, 8 * batch_tokens):
        for i, found in log_probs(engine, window, start=start, batch_tokens=batch_tokens):
            counter.add(window[i], found)
    return counter.result()
