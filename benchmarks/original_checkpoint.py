"""Random checkpoints of the published ELMo shapes in bilm's HDF5 layout: what a benchmark loads without a download.

Speed and memory depend on shapes, not on what was learnt. Scales are near those of an initialised model: layers spread
by 0.2 to 0.3 on English sentences, as a guard against overflow, denormals and cells that sit on their clip.

    python benchmarks/original_checkpoint.py OUT --shape original
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

OPTIONS_NAME = "options.json"
WEIGHTS_NAME = "weights.hdf5"

Float32Array = NDArray[np.float32]
Named = tuple[str, Float32Array]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What tells the published models apart; `parameters` is the known count, to catch a wrong shape."""

    cell: int
    projection: int
    highways: int
    parameters: int


SHAPES = {
    "small": Shape(cell=1024, projection=128, highways=1, parameters=13_593_296),
    "medium": Shape(cell=2048, projection=256, highways=1, parameters=28_027_728),
    "original": Shape(cell=4096, projection=512, highways=2, parameters=93_600_848),
}

# The same in every published model.
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
FEATURES = sum(number for _, number in FILTERS)
CHARACTERS = 261
CHARACTER_DIM = 16
LAYERS = 2
CLIP = 3.0


def options(shape: Shape) -> dict[str, object]:
    """What `options.json` holds; 262 characters is what the published inference files say."""
    return {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": shape.projection,
            "cell_clip": CLIP,
            "proj_clip": CLIP,
            "dim": shape.cell,
            "n_layers": LAYERS,
        },
        "char_cnn": {
            "activation": "relu",
            "filters": [list(one) for one in FILTERS],
            "n_highway": shape.highways,
            "embedding": {"dim": CHARACTER_DIM},
            "n_characters": CHARACTERS + 1,
            "max_characters_per_token": 50,
        },
    }


def _normal(random: np.random.Generator, *size: int, scale: float) -> Float32Array:
    return random.standard_normal(size, dtype=np.float32) * np.float32(scale)


def _uniform(random: np.random.Generator, *size: int, limit: float) -> Float32Array:
    return (random.random(size, dtype=np.float32) * 2 - 1) * np.float32(limit)


def character_tensors(shape: Shape, random: np.random.Generator) -> Iterator[Named]:
    """Embedding, convolutions, highways and projection, at bilm's own initial scales."""
    yield "char_embed", _uniform(random, CHARACTERS, CHARACTER_DIM, limit=1.0)
    for index, (width, number) in enumerate(FILTERS):
        yield f"CNN/W_cnn_{index}", _uniform(random, 1, width, CHARACTER_DIM, number, limit=0.05)
        yield f"CNN/b_cnn_{index}", _normal(random, number, scale=0.05)
    for index in range(shape.highways):
        for part, offset in (("carry", -2.0), ("transform", 0.0)):
            yield (
                f"CNN_high_{index}/W_{part}",
                _normal(random, FEATURES, FEATURES, scale=1 / math.sqrt(FEATURES)),
            )
            yield f"CNN_high_{index}/b_{part}", _normal(random, FEATURES, scale=0.05) + np.float32(offset)
    yield "CNN_proj/W_proj", _normal(random, FEATURES, shape.projection, scale=1 / math.sqrt(FEATURES))
    yield "CNN_proj/b_proj", _normal(random, shape.projection, scale=0.05)


def recurrent_tensors(shape: Shape, random: np.random.Generator) -> Iterator[Named]:
    """Both directions of each layer: rows [input; recurrent], columns i, j, f, o."""
    for direction in range(2):
        for layer in range(LAYERS):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            rows = 2 * shape.projection
            yield f"{cell}/W_0", _normal(random, rows, 4 * shape.cell, scale=1 / math.sqrt(shape.projection))
            yield f"{cell}/B", _normal(random, 4 * shape.cell, scale=0.1)
            yield f"{cell}/W_P_0", _normal(random, shape.cell, shape.projection, scale=1 / math.sqrt(shape.cell))


def write_checkpoint(folder: Path, shape: Shape, *, seed: int = 0) -> tuple[Path, Path]:
    """Write `options.json` and `weights.hdf5`; the same seed gives the same bytes of weights."""
    folder.mkdir(parents=True, exist_ok=True)
    options_path, weights_path = folder / OPTIONS_NAME, folder / WEIGHTS_NAME
    options_path.write_text(json.dumps(options(shape), indent=2) + "\n", encoding="utf-8")
    random = np.random.default_rng(seed)
    parameters = 0
    with h5py.File(weights_path, "w") as out:
        for part in (character_tensors, recurrent_tensors):
            for name, tensor in part(shape, random):
                out[name] = tensor
                parameters += tensor.size
    if parameters != shape.parameters:
        raise ValueError(f"{parameters:,} parameters written, {shape.parameters:,} expected: the shape is wrong")
    return options_path, weights_path


def main() -> None:
    """Write one checkpoint and say where."""
    parser = argparse.ArgumentParser(description="Write a random bilm HDF5 checkpoint of a published shape.")
    parser.add_argument("out", type=Path, help=f"folder for {OPTIONS_NAME} and {WEIGHTS_NAME}")
    parser.add_argument("--shape", choices=SHAPES, default="original")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for path in write_checkpoint(args.out, SHAPES[args.shape], seed=args.seed):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
