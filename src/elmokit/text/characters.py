"""The ELMo character encoder: a token becomes a row of byte ids, byte for byte as published.

A byte b is b + 1, for 0 pads a sentence. A row is BEGIN_WORD, the bytes, END_WORD, then PAD_CHARACTER up to its length.
A token longer than fits is cut *in bytes*, even inside a UTF-8 sequence, and characters that UTF-8 cannot hold (lone
surrogates) are left out: that is what the published models were trained with. `<S>` and `</S>` are the sentence's
marks, also where they occur as ordinary tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .alphabet import BEGIN_SENTENCE, BEGIN_WORD, END_SENTENCE, END_WORD, PAD_CHARACTER, SENTENCE_MARKS

_MARK_IDS = dict(zip(SENTENCE_MARKS, (BEGIN_SENTENCE, END_SENTENCE), strict=True))


def character_rows(tokens: Sequence[str], max_characters_per_token: int = 50) -> NDArray[np.int64]:
    """(token, character) ids; repeated tokens are worked out again, so pass distinct ones."""
    n_bytes = max_characters_per_token - 2
    encoded = [token.encode("utf-8", "ignore")[:n_bytes] for token in tokens]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    rows = np.full((len(encoded), max_characters_per_token), PAD_CHARACTER, dtype=np.int64)
    rows[:, 0] = BEGIN_WORD
    rows[np.arange(len(encoded)), lengths + 1] = END_WORD
    positions = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
    rows[np.repeat(np.arange(len(encoded)), lengths), positions + 1] = np.frombuffer(b"".join(encoded), np.uint8) + 1
    for i, token in enumerate(tokens):
        if token in _MARK_IDS:
            rows[i] = mark_row(_MARK_IDS[token], max_characters_per_token)
    return rows


def mark_row(mark: int, max_characters_per_token: int) -> list[int]:
    return [BEGIN_WORD, mark, END_WORD] + [PAD_CHARACTER] * (max_characters_per_token - 3)
