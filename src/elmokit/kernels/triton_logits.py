"""What a softmax does with its logits, row by row, each read once: their total, and their shares of it."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def log_totals(logits, bias, hits, totals, n_words, HITS: tl.constexpr, BLOCK: tl.constexpr):
    """log sum exp(logit + bias) of a row, without its hit."""
    row = tl.program_id(0).to(tl.int64)
    hit = tl.load(hits + row) if HITS else -1
    highest = float("-inf")
    total = 0.0
    for first in range(0, n_words, BLOCK):
        words = first + tl.arange(0, BLOCK)
        is_in = (words < n_words) & (words != hit)
        x = tl.load(logits + row * n_words + words, mask=is_in, other=float("-inf")).to(tl.float32)
        x += tl.load(bias + words, mask=is_in, other=0.0)
        higher = tl.maximum(highest, tl.max(x, axis=0))
        # A block may hold nothing but the hit: minus infinity from itself is no number.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(highest - base) + tl.sum(tl.exp(x - base), axis=0)
        highest = higher
    tl.store(totals + row, highest + tl.log(total))


@triton.jit
def shares(logits, bias, hits, totals, grad, n_words, HITS: tl.constexpr, BLOCK: tl.constexpr):
    """`logits` are replaced by exp(logit + bias - total) * grad; a row's hit has none."""
    row = tl.program_id(0).to(tl.int64)
    hit = tl.load(hits + row) if HITS else -1
    total = tl.load(totals + row)
    weight = tl.load(grad + row)
    for first in range(0, n_words, BLOCK):
        words = first + tl.arange(0, BLOCK)
        is_in = words < n_words
        x = tl.load(logits + row * n_words + words, mask=is_in, other=0.0).to(tl.float32)
        share = tl.exp(x + tl.load(bias + words, mask=is_in, other=0.0) - total) * weight
        share = tl.where(words == hit, 0.0, share)
        tl.store(logits + row * n_words + words, share.to(logits.dtype.element_ty), mask=is_in)
