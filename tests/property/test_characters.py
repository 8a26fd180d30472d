"""Any str is encoded, as the oracle encodes it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.text.characters import character_rows

from reference.numpy_bilm import character_ids

STABLE = settings(derandomize=True, deadline=None, max_examples=150)

ODD = st.sampled_from(["", "<S>", "</S>", "<s>", "\x00", "\ud800", "\udfff" * 60, "ü" * 40, "x" * 99, "日本" * 20])
TOKENS = ODD | st.text(st.characters(), max_size=70) | st.text("\ud800a\x00ü日", max_size=70)


@STABLE
@given(st.lists(TOKENS, max_size=8), st.integers(3, 60))
def test_rows_are_the_oracles(tokens: list[str], length: int) -> None:
    expected = [character_ids(token, length) for token in tokens]
    assert character_rows(tokens, length).tolist() == expected
