"""What a model is handed from outside, checked at the edge: token lists, and rows of character ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .alphabet import PADDING


def check_sentences(sentences: Sequence[Iterable[Any]]) -> None:
    """Each sentence a list of texts."""
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            raise DataError(f"sentence {i} is a text, not a list of tokens: {sentence[:40]!r}", hint="split it")
        if not isinstance(sentence, Iterable):
            raise DataError(f"sentence {i}: expected a list of tokens, found {sentence!r:.60}", hint="tokenise it")
        if set(map(type, sentence)) <= {str}:
            continue
        for j, token in enumerate(sentence):
            if not isinstance(token, str):
                raise DataError(f"sentence {i}, token {j}: expected a text, found {token!r:.60}", hint="str(token)")


def check_ids(ids: NDArray[Any], *, n_characters: int) -> None:
    """(batch, token, character) ids: each a row of the embedding, and rows of padding only behind a sentence."""
    wrong = np.argwhere((ids < 0) | (ids >= n_characters))
    if len(wrong):
        i, j, k = map(int, wrong[0])
        raise DataError(
            f"sentence {i}, token {j}, character {k} is {ids[i, j, k]}, expected 0 to {n_characters - 1}",
            hint="make the ids with encode(), or with AllenNLP's batch_to_ids",
        )
    present = (ids != PADDING).any(axis=2)
    gaps = np.argwhere(present[:, 1:] & ~present[:, :-1])
    if len(gaps):
        i, j = map(int, gaps[0])
        raise DataError(
            f"sentence {i}, token {j} is padding and a token follows it", hint="put the padding behind the sentence"
        )
