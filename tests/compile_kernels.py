"""Compiles every Triton kernel for two generations of GPUs, and prints what it takes: no GPU is needed for that.

    python compile_kernels.py bf16 fp32

Run by `tests/unit/test_kernels_compile.py`, in a process of its own: Triton's interpreter must be off in it.
"""

from __future__ import annotations

import json
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from elmokit.kernels import triton_characters, triton_recurrence
from elmokit.kernels.fused import Tiles

POINTERS = {"bias", "cells", "grad_cell", "partial", "grad_x"}  # always float32
OTHER_POINTERS = {"begins": "i8", "counts": "i32", "offsets": "i32", "meetings": "i32", "maxima": "i16"} | {
    "n_places": "i32"
}
IN_DTYPE = {"gates", "weight_hh", "weight_hr", "hidden", "inner", "grad_outputs", "grad_projected"}
IN_DTYPE |= {"x", "weight", "grad", "result"}
SHARED = {80: 101_376, 90: 232_448}  # the least that a card of the generation has


def compiled(kernel, constants: dict, options: dict, *, dtype: str, generation: int) -> dict:
    signature, attributes = {}, {}
    for i, name in enumerate(kernel.arg_names):
        kind = OTHER_POINTERS.get(name) or ("fp32" if name in POINTERS else dtype if name in IN_DTYPE else None)
        signature[name] = "constexpr" if name in constants else f"*{kind}" if kind else "i32"
        if kind:
            attributes[(i,)] = [["tt.divisibility", 16]]
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, places, attributes)
    result = triton.compile(source, target=GPUTarget("cuda", generation, 32), options=options)
    return {
        "kernel": kernel.__name__,
        "generation": generation,
        "dtype": dtype,
        "shared": result.metadata.shared,
        "allowed": SHARED[generation],
    }


def recurrences(dtype: str, generation: int):
    for n_rows, training in ((32, False), (512, False), (512, True)):
        itemsize = 4 if dtype == "fp32" else 2
        tiles = Tiles.choose(n_rows, 4096, 512, itemsize=itemsize, shared_bytes=SHARED[generation]).as_arguments()
        options = {name: tiles.pop(name) for name in ("num_warps", "num_stages")} | {"launch_cooperative_grid": True}
        shape = {"DIRECTIONS": 2, "D": 4096, "P": 512, "PROJECTION": True, "CELL_CLIP": 3.0, "PROJ_CLIP": 3.0}
        constants = {**shape, **tiles, "RESETS": training, "PRECISION": precision(dtype)}
        forward = {**constants, "TRAINING": training}
        yield compiled(triton_recurrence.forward_steps, forward, options, dtype=dtype, generation=generation)
        if training:
            yield compiled(triton_recurrence.backward_steps, constants, options, dtype=dtype, generation=generation)


def characters(dtype: str, generation: int):
    words, filters, warps = (64, 128, 8) if dtype == "bf16" else (32, 64, 4)
    constants = {"STEP": 16, "DEPTH": 128, "WORDS": words, "FILTERS": filters}
    constants["PRECISION"] = precision(dtype)
    options = {"num_warps": warps, "num_stages": 2}
    for kernel in (triton_characters.grad_filters, triton_characters.grad_inputs):
        yield compiled(kernel, constants, options, dtype=dtype, generation=generation)
    forward = {**constants, "TRAINING": True}
    yield compiled(triton_characters.convolve, forward, options, dtype=dtype, generation=generation)


def precision(dtype: str) -> str:
    return "tf32x3" if dtype == "fp32" else "ieee"


if __name__ == "__main__":
    for dtype in sys.argv[1:]:
        for generation in SHARED:
            for some in (recurrences, characters):
                for facts in some(dtype, generation):
                    sys.stdout.write(json.dumps(facts) + "\n")
