"""The way in and out: any source to a bundle, any bundle to files."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UnknownFormat, WeightsError
from ..model.bilm import BiLM
from ..settings import nearest
from .bundle import WeightBundle, check_shapes, expected_shapes
from .catalog import BUNDLED
from .formats import FORMATS, Format, get_format
from .unknown import refuse

Source = str | os.PathLike[str] | tuple[str | os.PathLike[str], str | os.PathLike[str]]
"""A bundled name, a folder, a file, or (options.json, weights.hdf5)."""

_INCOMPLETE = "nothing was written: give the tensors that belong to the config"


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
    writer, found = get_format(format), {name: tuple(tensor.shape) for name, tensor in bundle.tensors.items()}
    where = f"the model for {path}"
    check_shapes(found, expected_shapes(bundle.config, where=where), where=where, hint=_INCOMPLETE, exactly=True)
    try:
        return writer.write(bundle, Path(path))
    except OSError as error:
        reason = error.strerror or error
        raise WeightsError(f"{path}: cannot be written ({reason})", hint="give another path") from error


def load_bilm(source: Source, *, softmax: bool = False) -> BiLM:
    """The biLM of any source, in float32 on the CPU, ready for inference."""
    return read_weights(source, softmax=softmax, checksum=False).build()


def _find(path: Path) -> tuple[Path, Format]:
    try:
        return _found(path)
    except OSError as error:
        raise WeightsError(f"{path!s:.200}: cannot be read ({error.strerror})", hint="check the path") from error


def _found(path: Path) -> tuple[Path, Format]:
    if not path.exists():
        known = ", ".join(BUNDLED)
        raise WeightsError(
            f"{path}: no such file, folder or bundled model{nearest(str(path), list(BUNDLED))}",
            hint=f"bundled models: {known}; or give the path of a weights file or of a model's folder",
        )
    if not path.is_file() and not path.is_dir():
        raise UnknownFormat(f"{path}: neither a file nor a folder", hint="copy what it gives into a file first")
    for name in FORMATS:
        reader = get_format(name)
        weights = reader.weights_file(path)
        if weights is not None:
            return weights, reader
    raise refuse(path)
