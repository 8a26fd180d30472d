"""The way in and out: any source to a bundle, any bundle to files."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UnknownFormat, WeightsError
from ..model.bilm import BiLM
from ..settings import nearest
from .bundle import WeightBundle
from .catalog import BUNDLED
from .formats import FORMATS, Format, get_format
from .unknown import refuse_by_content

Source = str | os.PathLike[str] | tuple[str | os.PathLike[str], str | os.PathLike[str]]
"""A bundled name, a folder, a file, or (options.json, weights.hdf5)."""


def read_weights(source: Source, *, softmax: bool = True, checksum: bool = True) -> WeightBundle:
    """Read a model's files, whatever their format. `checksum` fills `provenance.sha256`."""
    if isinstance(source, str) and source in BUNDLED:
        return BUNDLED[source].read()
    options, path = (Path(source[0]), Path(source[1])) if isinstance(source, tuple) else (None, Path(source))
    weights, reader = _find(path)
    bundle = reader.read(weights, options=options, softmax=softmax, checksum=checksum)
    return bundle if softmax else bundle.without_softmax()


def write_weights(bundle: WeightBundle, path: str | os.PathLike[str], *, format: str = "native") -> list[Path]:
    """Write a model's files; returns them, the main one first."""
    return get_format(format).write(bundle, Path(path))


def load_bilm(source: Source, *, softmax: bool = False) -> BiLM:
    """The biLM of any source, in float32 on the CPU, ready for inference."""
    return read_weights(source, softmax=softmax, checksum=False).build()


def _find(path: Path) -> tuple[Path, Format]:
    if not path.exists():
        known = ", ".join(BUNDLED)
        raise WeightsError(
            f"{path}: no such file, folder or bundled model{nearest(str(path), list(BUNDLED))}",
            hint=f"bundled models: {known}; or give the path of a weights file or of a model's folder",
        )
    for name in FORMATS:
        reader = get_format(name)
        weights = reader.weights_file(path)
        if weights is not None:
            return weights, reader
    if path.is_dir():
        raise UnknownFormat(
            f"{path}: no model in this folder",
            hint="expected config.json and model.safetensors, or one HDF5 file of weights",
        )
    raise refuse_by_content(path)
