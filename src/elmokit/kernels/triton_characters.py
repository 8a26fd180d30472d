"""The convolutions over characters and their maximum in one Triton kernel, and its backward pass.

Written out, the convolutions of one word are a hundred thousand numbers of which the maximum keeps two thousand. Here
they never leave the registers. A word's embedded characters lie one behind the other, so that the window at a place is
a slice of that row, and all convolutions are one product of slices with the filters, place by place. For the backward
pass the place of each maximum is kept, and gradients are the same products with all other places masked.

Filters are rows of DEPTH numbers, zero behind their window. A narrow filter has more places than a wide one: `n_places`
says how many each has.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n_words"])
def convolve(
    x,
    weight,
    bias,
    n_places,
    result,
    maxima,
    n_words,
    row,
    most_places,
    n_filters,
    STEP: tl.constexpr,
    DEPTH: tl.constexpr,
    WORDS: tl.constexpr,
    FILTERS: tl.constexpr,
    TRAINING: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Each filter's largest answer over all its places, and its bias."""
    words = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    filters = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    depth = tl.arange(0, DEPTH)
    is_filter = filters < n_filters
    w = tl.load(weight + filters[None, :] * DEPTH + depth[:, None], mask=is_filter[None, :], other=0.0)
    own_places = tl.load(n_places + filters, mask=is_filter, other=0)
    slices = x + words[:, None].to(tl.int64) * row + depth[None, :]
    best = tl.full((WORDS, FILTERS), float("-inf"), tl.float32)
    where = tl.zeros((WORDS, FILTERS), tl.int32)
    for place in range(most_places):
        is_in = (words < n_words)[:, None] & (place * STEP + depth < row)[None, :]
        answer = tl.dot(tl.load(slices + place * STEP, mask=is_in, other=0.0), w, input_precision=PRECISION)
        answer = tl.where((place < own_places)[None, :], answer, float("-inf"))
        if TRAINING:
            where = tl.where(answer > best, place, where)
        best = tl.maximum(best, answer)
    best += tl.load(bias + filters, mask=is_filter, other=0.0)[None, :]
    there = (words < n_words)[:, None] & is_filter[None, :]
    place_of = words[:, None].to(tl.int64) * n_filters + filters[None, :]
    tl.store(result + place_of, best.to(result.dtype.element_ty), mask=there)
    if TRAINING:
        tl.store(maxima + place_of, where.to(tl.int16), mask=there)


@triton.jit(do_not_specialize=["n_words"])
def grad_filters(
    x,
    grad,
    maxima,
    partial,
    n_words,
    row,
    most_places,
    n_filters,
    STEP: tl.constexpr,
    DEPTH: tl.constexpr,
    WORDS: tl.constexpr,
    FILTERS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Each program sums over some of the words: (part, filter, DEPTH) partial sums, added up by the caller."""
    filters = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    depth = tl.arange(0, DEPTH)
    is_filter = filters < n_filters
    total = tl.zeros((FILTERS, DEPTH), tl.float32)
    for first_word in range(tl.program_id(1) * WORDS, n_words, tl.num_programs(1) * WORDS):
        words = first_word + tl.arange(0, WORDS)
        there = is_filter[:, None] & (words < n_words)[None, :]
        place_of = words[None, :].to(tl.int64) * n_filters + filters[:, None]
        g = tl.load(grad + place_of, mask=there, other=0.0)
        where = tl.load(maxima + place_of, mask=there, other=-1)
        slices = x + words[:, None].to(tl.int64) * row + depth[None, :]
        for place in range(most_places):
            is_in = (words < n_words)[:, None] & (place * STEP + depth < row)[None, :]
            here = tl.where(where == place, g, 0.0).to(x.dtype.element_ty)
            some = tl.load(slices + place * STEP, mask=is_in, other=0.0)
            total = tl.dot(here, some, total, input_precision=PRECISION)
    out = partial + (tl.program_id(1) * n_filters + filters[:, None]) * DEPTH + depth[None, :]
    tl.store(out, total, mask=is_filter[:, None])


@triton.jit(do_not_specialize=["n_words"])
def grad_inputs(
    weight,
    grad,
    maxima,
    grad_x,
    n_words,
    row,
    most_places,
    n_filters,
    STEP: tl.constexpr,
    DEPTH: tl.constexpr,
    WORDS: tl.constexpr,
    FILTERS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Adds to `grad_x`, float32: each program has some words to itself, and goes through their places in order."""
    words = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    depth = tl.arange(0, DEPTH)
    slices = grad_x + words[:, None].to(tl.int64) * row + depth[None, :]
    for place in range(most_places):
        total = tl.zeros((WORDS, DEPTH), tl.float32)
        for first_filter in range(0, n_filters, FILTERS):
            filters = first_filter + tl.arange(0, FILTERS)
            is_filter = filters < n_filters
            there = (words < n_words)[:, None] & is_filter[None, :]
            place_of = words[:, None].to(tl.int64) * n_filters + filters[None, :]
            g = tl.load(grad + place_of, mask=there, other=0.0)
            where = tl.load(maxima + place_of, mask=there, other=-1)
            here = tl.where(where == place, g, 0.0).to(weight.dtype.element_ty)
            w = tl.load(weight + filters[:, None] * DEPTH + depth[None, :], mask=is_filter[:, None], other=0.0)
            total = tl.dot(here, w, total, input_precision=PRECISION)
        is_in = (words < n_words)[:, None] & (place * STEP + depth < row)[None, :]
        before = tl.load(slices + place * STEP, mask=is_in, other=0.0)
        tl.store(slices + place * STEP, before + total, mask=is_in)
        # The next place's slice overlaps this one's, in other threads.
        tl.debug_barrier()
