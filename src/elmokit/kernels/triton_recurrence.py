"""The recurrence of all directions as one Triton kernel that stays on the GPU for all its steps, and its backward pass.

A step is two products with something that all of the first must be done for in between: the gates of every cell, then
the projection of all cells. Launched one by one they cost a launch each, which for most shapes is more than the work.
Here as many programs as the GPU has multiprocessors share the tiles of a product and meet before the next, step after
step. What a step needs of an earlier one went through the L2 cache, so it is read past the L1 cache (`.cg`).

Rows are packed (see `packing.py`): step t's are the first `counts[t]`, and they stand at `offsets[t]`. Hidden states,
and in training cells, have the rows' start before the first step.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


# Else each kind of size and address, as Triton sees them (1, a multiple of 16, any other), is compiled on its own.
@triton.jit(
    do_not_specialize=["n_steps", "n_rows", "n_packed"], do_not_specialize_on_alignment=["begins", "counts", "offsets"]
)
def forward_steps(
    gates,
    bias,
    weight_hh,
    weight_hr,
    cells,
    inner,
    hidden,
    begins,
    counts,
    offsets,
    meetings,
    n_steps,
    n_rows,
    n_packed,
    DIRECTIONS: tl.constexpr,
    D: tl.constexpr,
    P: tl.constexpr,
    PROJECTION: tl.constexpr,
    CELL_CLIP: tl.constexpr,
    PROJ_CLIP: tl.constexpr,
    TRAINING: tl.constexpr,
    RESETS: tl.constexpr,
    ROWS: tl.constexpr,
    CELLS: tl.constexpr,
    DEPTH: tl.constexpr,
    PROJECTED_ROWS: tl.constexpr,
    PROJECTED: tl.constexpr,
    PROJECTED_DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """`gates` hold what inputs contribute; in training they are replaced by the gates after their activation."""
    met = 0
    before = 0
    for t in range(n_steps):
        n = tl.load(counts + t)
        now = tl.load(offsets + t)
        n_row_tiles = tl.cdiv(n, ROWS)
        for tile in range(tl.program_id(0), DIRECTIONS * (D // CELLS) * n_row_tiles, tl.num_programs(0)):
            direction = tile // (n_row_tiles * (D // CELLS))
            _cells_tile(
                gates + (direction * n_packed + now).to(tl.int64) * 4 * D,
                bias + direction * 4 * D,
                weight_hh + direction * 4 * D * P,
                cells + (direction * (n_rows + n_packed) + before if TRAINING else direction * n_rows).to(tl.int64) * D,
                cells
                + (direction * (n_rows + n_packed) + n_rows + now if TRAINING else direction * n_rows).to(tl.int64) * D,
                _inner_rows(inner, hidden, direction, now, n_rows, n_packed, D, PROJECTION, TRAINING),
                hidden + (direction * (n_rows + n_packed) + before).to(tl.int64) * P,
                begins + direction * n_packed + now,
                n,
                tile % n_row_tiles * ROWS,
                tile // n_row_tiles % (D // CELLS) * CELLS,
                D,
                P,
                CELL_CLIP,
                TRAINING,
                RESETS,
                ROWS,
                CELLS,
                DEPTH,
                PRECISION,
            )
        met += 1
        _meet(meetings, met)
        if PROJECTION:
            n_row_tiles = tl.cdiv(n, PROJECTED_ROWS)
            for tile in range(tl.program_id(0), DIRECTIONS * (P // PROJECTED) * n_row_tiles, tl.num_programs(0)):
                direction = tile // (n_row_tiles * (P // PROJECTED))
                _projection_tile(
                    _inner_rows(inner, hidden, direction, now, n_rows, n_packed, D, PROJECTION, TRAINING),
                    weight_hr + direction * P * D,
                    hidden + (direction * (n_rows + n_packed) + n_rows + now).to(tl.int64) * P,
                    n,
                    tile % n_row_tiles * PROJECTED_ROWS,
                    tile // n_row_tiles % (P // PROJECTED) * PROJECTED,
                    D,
                    P,
                    PROJ_CLIP,
                    PROJECTED_ROWS,
                    PROJECTED,
                    PROJECTED_DEPTH,
                    PRECISION,
                )
            met += 1
            _meet(meetings, met)
        before = n_rows + now


@triton.jit
def _inner_rows(
    inner, hidden, direction, now, n_rows, n_packed, D: tl.constexpr, PROJECTION: tl.constexpr, TRAINING: tl.constexpr
):
    """Where a step's outputs before the projection stand; without one they are the hidden state."""
    if not PROJECTION:
        rows = hidden + (direction * (n_rows + n_packed) + n_rows + now).to(tl.int64) * D
    elif TRAINING:
        rows = inner + (direction * n_packed + now).to(tl.int64) * D
    else:
        rows = inner + (direction * n_rows).to(tl.int64) * D
    return rows


@triton.jit
def _cells_tile(
    gates,
    bias,
    weight_hh,
    cells_before,
    cells_now,
    inner,
    hidden,
    begins,
    n,
    first_row,
    first_cell,
    D: tl.constexpr,
    P: tl.constexpr,
    CELL_CLIP: tl.constexpr,
    TRAINING: tl.constexpr,
    RESETS: tl.constexpr,
    ROWS: tl.constexpr,
    CELLS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """All four gates of some cells of some rows, their new cells, and what goes into the projection."""
    rows = first_row + tl.arange(0, ROWS)
    cols = first_cell + tl.arange(0, CELLS)
    depth = tl.arange(0, DEPTH)
    there = rows < n
    kept = there
    if RESETS:
        kept = there & (tl.load(begins + rows, mask=there, other=1) == 0)
    i = tl.zeros((ROWS, CELLS), tl.float32)
    f = tl.zeros((ROWS, CELLS), tl.float32)
    g = tl.zeros((ROWS, CELLS), tl.float32)
    o = tl.zeros((ROWS, CELLS), tl.float32)
    h = hidden + rows[:, None] * P + depth[None, :]
    w = weight_hh + cols[None, :] * P + depth[:, None]
    for k in range(0, P, DEPTH):
        x = tl.load(h + k, mask=kept[:, None], other=0.0, cache_modifier=".cg")
        i = tl.dot(x, tl.load(w + k), i, input_precision=PRECISION)
        f = tl.dot(x, tl.load(w + D * P + k), f, input_precision=PRECISION)
        g = tl.dot(x, tl.load(w + 2 * D * P + k), g, input_precision=PRECISION)
        o = tl.dot(x, tl.load(w + 3 * D * P + k), o, input_precision=PRECISION)
    inputs = gates + rows[:, None].to(tl.int64) * 4 * D + cols[None, :]
    i = _sigmoid(i + tl.load(inputs, mask=there[:, None], other=0.0) + tl.load(bias + cols))
    f = _sigmoid(f + tl.load(inputs + D, mask=there[:, None], other=0.0) + tl.load(bias + D + cols))
    g = _tanh(g + tl.load(inputs + 2 * D, mask=there[:, None], other=0.0) + tl.load(bias + 2 * D + cols))
    o = _sigmoid(o + tl.load(inputs + 3 * D, mask=there[:, None], other=0.0) + tl.load(bias + 3 * D + cols))
    place = rows[:, None] * D + cols[None, :]
    cell = f * tl.load(cells_before + place, mask=kept[:, None], other=0.0, cache_modifier=".cg") + i * g
    if CELL_CLIP is not None:
        cell = tl.minimum(tl.maximum(cell, -CELL_CLIP), CELL_CLIP)
    tl.store(cells_now + place, cell, mask=there[:, None])
    tl.store(inner + place, (o * _tanh(cell)).to(inner.dtype.element_ty), mask=there[:, None])
    if TRAINING:
        kind = gates.dtype.element_ty
        tl.store(inputs, i.to(kind), mask=there[:, None])
        tl.store(inputs + D, f.to(kind), mask=there[:, None])
        tl.store(inputs + 2 * D, g.to(kind), mask=there[:, None])
        tl.store(inputs + 3 * D, o.to(kind), mask=there[:, None])


@triton.jit
def _projection_tile(
    inner,
    weight_hr,
    hidden,
    n,
    first_row,
    first_col,
    D: tl.constexpr,
    P: tl.constexpr,
    PROJ_CLIP: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    rows = first_row + tl.arange(0, ROWS)
    cols = first_col + tl.arange(0, COLS)
    depth = tl.arange(0, DEPTH)
    there = rows < n
    x = inner + rows[:, None] * D + depth[None, :]
    w = weight_hr + cols[None, :] * D + depth[:, None]
    total = _product(tl.zeros((ROWS, COLS), tl.float32), x, there, w, 1, D, DEPTH, PRECISION)
    if PROJ_CLIP is not None:
        total = tl.minimum(tl.maximum(total, -PROJ_CLIP), PROJ_CLIP)
    place = rows[:, None] * P + cols[None, :]
    tl.store(hidden + place, total.to(hidden.dtype.element_ty), mask=there[:, None])


@triton.jit(do_not_specialize=["n_steps", "n_rows"], do_not_specialize_on_alignment=["begins"])
def backward_steps(
    gates,
    weight_hh,
    weight_hr,
    cells,
    hidden,
    grad_outputs,
    grad_projected,
    grad_cell,
    begins,
    meetings,
    n_steps,
    n_rows,
    DIRECTIONS: tl.constexpr,
    D: tl.constexpr,
    P: tl.constexpr,
    PROJECTION: tl.constexpr,
    CELL_CLIP: tl.constexpr,
    PROJ_CLIP: tl.constexpr,
    RESETS: tl.constexpr,
    ROWS: tl.constexpr,
    CELLS: tl.constexpr,
    DEPTH: tl.constexpr,
    PROJECTED_ROWS: tl.constexpr,
    PROJECTED: tl.constexpr,
    PROJECTED_DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """`gates`, after their activation, are replaced by their gradients; `grad_projected` is of the clipped projection.

    All rows run through all steps. No gradient flows into the state before the first step.
    """
    met = 0
    n_packed = n_steps * n_rows
    for step in range(n_steps + 1):
        t = n_steps - step  # the step whose gates have their gradients; what came before it is next
        n_row_tiles = tl.cdiv(n_rows, PROJECTED_ROWS)
        n_tiles = DIRECTIONS * (P // PROJECTED) * n_row_tiles
        if t > 0:
            for tile in range(tl.program_id(0), n_tiles, tl.num_programs(0)):
                direction = tile // (n_row_tiles * (P // PROJECTED))
                earlier = (direction * n_packed + (t - 1) * n_rows).to(tl.int64)
                _grad_projected_tile(
                    gates + (earlier + n_rows) * 4 * D,
                    weight_hh + direction * 4 * D * P,
                    hidden + (earlier + (direction + 1) * n_rows) * P,
                    grad_outputs + earlier * P,
                    grad_projected + earlier * P,
                    begins + earlier + n_rows,
                    n_rows,
                    tile % n_row_tiles * PROJECTED_ROWS,
                    tile // n_row_tiles % (P // PROJECTED) * PROJECTED,
                    t < n_steps,
                    D,
                    P,
                    PROJ_CLIP if PROJECTION else None,
                    RESETS,
                    PROJECTED_ROWS,
                    PROJECTED,
                    PROJECTED_DEPTH,
                    PRECISION,
                )
            met += 1
            _meet(meetings, met)
            n_row_tiles = tl.cdiv(n_rows, ROWS)
            for tile in range(tl.program_id(0), DIRECTIONS * (D // CELLS) * n_row_tiles, tl.num_programs(0)):
                direction = tile // (n_row_tiles * (D // CELLS))
                earlier = (direction * n_packed + (t - 1) * n_rows).to(tl.int64)
                _grad_gates_tile(
                    gates + earlier * 4 * D,
                    weight_hr + direction * P * D,
                    cells + (earlier + direction * n_rows) * D,
                    grad_projected + earlier * P,
                    grad_cell + direction * n_rows * D,
                    begins + earlier,
                    n_rows,
                    tile % n_row_tiles * ROWS,
                    tile // n_row_tiles % (D // CELLS) * CELLS,
                    D,
                    P,
                    PROJECTION,
                    CELL_CLIP,
                    RESETS,
                    ROWS,
                    CELLS,
                    DEPTH,
                    PRECISION,
                )
            met += 1
            _meet(meetings, met)


@triton.jit
def _grad_projected_tile(
    grad_gates,
    weight_hh,
    hidden,
    grad_outputs,
    grad_projected,
    begins,
    n,
    first_row,
    first_col,
    is_carried,
    D: tl.constexpr,
    P: tl.constexpr,
    PROJ_CLIP: tl.constexpr,
    RESETS: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """What comes from the output, and from the next step's gates unless a sentence begins there."""
    rows = first_row + tl.arange(0, ROWS)
    cols = first_col + tl.arange(0, COLS)
    depth = tl.arange(0, DEPTH)
    there = rows < n
    total = tl.zeros((ROWS, COLS), tl.float32)
    if is_carried:
        kept = there
        if RESETS:
            kept = there & (tl.load(begins + rows, mask=there, other=1) == 0)
        x = grad_gates + rows[:, None].to(tl.int64) * 4 * D + depth[None, :]
        w = weight_hh + depth[:, None] * P + cols[None, :]
        total = _product(total, x, kept, w, P, 4 * D, DEPTH, PRECISION)
    place = rows[:, None] * P + cols[None, :]
    total += tl.load(grad_outputs + place, mask=there[:, None], other=0.0)
    if PROJ_CLIP is not None:
        value = tl.load(hidden + place, mask=there[:, None], other=0.0)
        total = tl.where(tl.abs(value) < PROJ_CLIP, total, 0.0)
    tl.store(grad_projected + place, total.to(grad_projected.dtype.element_ty), mask=there[:, None])


@triton.jit
def _grad_gates_tile(
    gates,
    weight_hr,
    cells,
    grad_projected,
    grad_cell,
    begins,
    n,
    first_row,
    first_cell,
    D: tl.constexpr,
    P: tl.constexpr,
    PROJECTION: tl.constexpr,
    CELL_CLIP: tl.constexpr,
    RESETS: tl.constexpr,
    ROWS: tl.constexpr,
    CELLS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    rows = first_row + tl.arange(0, ROWS)
    cols = first_cell + tl.arange(0, CELLS)
    there = (rows < n)[:, None]
    place = rows[:, None] * D + cols[None, :]
    if PROJECTION:
        depth = tl.arange(0, DEPTH)
        x = grad_projected + rows[:, None] * P + depth[None, :]
        w = weight_hr + depth[:, None] * D + cols[None, :]
        grad_inner = _product(tl.zeros((ROWS, CELLS), tl.float32), x, rows < n, w, D, P, DEPTH, PRECISION)
    else:
        grad_inner = tl.load(grad_projected + place, mask=there, other=0.0, cache_modifier=".cg").to(tl.float32)
    kept = there
    if RESETS:
        kept = there & (tl.load(begins + rows, mask=rows < n, other=1) == 0)[:, None]
    own = gates + rows[:, None].to(tl.int64) * 4 * D + cols[None, :]
    i = tl.load(own, mask=there, other=0.0).to(tl.float32)
    f = tl.load(own + D, mask=there, other=0.0).to(tl.float32)
    g = tl.load(own + 2 * D, mask=there, other=0.0).to(tl.float32)
    o = tl.load(own + 3 * D, mask=there, other=0.0).to(tl.float32)
    cell = tl.load(cells + n * D + place, mask=there, other=0.0)
    cell_before = tl.load(cells + place, mask=kept, other=0.0)
    shown = _tanh(cell)
    grad = tl.load(grad_cell + place, mask=there, other=0.0, cache_modifier=".cg")
    grad += grad_inner * o * (1 - shown * shown)
    if CELL_CLIP is not None:
        grad = tl.where(tl.abs(cell) < CELL_CLIP, grad, 0.0)
    kind = gates.dtype.element_ty
    tl.store(own, (grad * g * i * (1 - i)).to(kind), mask=there)
    tl.store(own + D, (grad * cell_before * f * (1 - f)).to(kind), mask=there)
    tl.store(own + 2 * D, (grad * i * (1 - g * g)).to(kind), mask=there)
    tl.store(own + 3 * D, (grad_inner * shown * o * (1 - o)).to(kind), mask=there)
    tl.store(grad_cell + place, tl.where(kept, grad * f, 0.0), mask=there)


@triton.jit
def _product(total, x, is_row, w, stride, n, DEPTH: tl.constexpr, PRECISION: tl.constexpr):
    """Add to `total` the product over `n` columns of `x`, which lie side by side, and rows of `w`, `stride` apart."""
    for k in range(0, n, DEPTH):
        some = tl.load(x + k, mask=is_row[:, None], other=0.0, cache_modifier=".cg")
        total = tl.dot(some, tl.load(w + k * stride), total, input_precision=PRECISION)
    return total


@triton.jit
def _meet(meetings, met):
    """Wait until every program has come here `met` times; what they wrote before is then seen by all."""
    tl.debug_barrier()
    arrived = tl.atomic_add(meetings, 1, sem="acq_rel", scope="gpu") + 1
    while arrived < met * tl.num_programs(0):
        arrived = tl.atomic_add(meetings, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tanh(x):
    return 2 / (1 + tl.exp(-2 * x)) - 1
