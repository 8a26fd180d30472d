"""Numbers as people say them."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """1 word, 1,200 words."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def millions(n: int) -> str:
    return f"{n / 1e6:.1f} M" if n >= 1e6 else f"{n:,}"
