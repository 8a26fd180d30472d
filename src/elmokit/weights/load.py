"""The way in and out: any source to a bundle, any bundle to files."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import SettingsError, UnknownFormat, WeightsError
from ..model.bilm import BiLM
from ..settings import nearest
from .bundle import WeightBundle, check_shapes, expected_shapes
from .catalog import BUNDLED
from .formats import FORMATS, Format, get_format
from .unknown import refuse

Source = str | os.PathLike[str] | tuple[str | os.PathLike[str], str | os.PathLike[str]]
"""A bundled name, a folder, a file, or (options.json, weights.hdf5)."""

_ELSEWHERE = "give another path"
_INCOMPLETE = "nothing was written: give the tensors that belong to the config"


def read_weights(source: Source, *, softmax: bool = True, checksum: bool = True) -> WeightBundle:
    """Read a model's files, whatever their format. `checksum` fills `provenance.sha256`."""
    options, path = _options_and_path(source)
    if options is None and _is_bundled(source, path):
        return BUNDLED[str(path)].read()
    weights, reader = _find(path)
    bundle = reader.read(weights, options=options, softmax=softmax, checksum=checksum)
    return bundle if softmax else bundle.without_softmax()


def write_weights(bundle: WeightBundle, path: str | os.PathLike[str], *, format: str = "native") -> list[Path]:
    """Write a model's files; returns them, the main one first."""
    writer, found = get_format(format), {name: tuple(tensor.shape) for name, tensor in bundle.tensors.items()}
    where = f"the model for {path}"
    check_shapes(found, expected_shapes(bundle.config, where=where), where=where, hint=_INCOMPLETE, exactly=True)
    folders = [str(file) for file in writer.target_files(bundle, Path(path)) if file.is_dir()]
    if folders:
        raise WeightsError(f"{path}: a folder stands where a file would be: {', '.join(folders)}", hint=_ELSEWHERE)
    try:
        return writer.write(bundle, Path(path))
    except OSError as error:
        reason = error.strerror or error
        raise WeightsError(f"{path}: cannot be written ({reason})", hint=_ELSEWHERE) from error


def files_in_the_way(bundle: WeightBundle, path: Path, *, format: str) -> list[Path]:
    """What `write_weights` would overwrite."""
    return [file for file in get_format(format).target_files(bundle, path) if os.path.lexists(file)]


def files_of(source: Source) -> list[Path]:
    """The files that a source names: its weights, and the options it was given with; none of a bundled model."""
    options, path = _options_and_path(source)
    if options is None and _is_bundled(source, path):
        return []
    return [_find(path)[0], *([options] if options else [])]


def load_bilm(source: Source, *, softmax: bool = False) -> BiLM:
    """The biLM of any source, in float32 on the CPU, ready for inference."""
    return read_weights(source, softmax=softmax, checksum=False).build()


def _options_and_path(source: Source) -> tuple[Path | None, Path]:
    parts = source if isinstance(source, tuple) else (source,)
    wrong = [part for part in parts if not isinstance(part, str | os.PathLike) or not isinstance(os.fspath(part), str)]
    if wrong or "" in parts or len(parts) != (2 if isinstance(source, tuple) else 1):
        found = repr(source) if isinstance(source, str | bytes | int | tuple | list) else type(source).__name__
        raise SettingsError(
            f"no model can be read from {found:.100}: expected a path, a bundled name, or (options.json, weights.hdf5)",
            hint="a BiLM that was made in Python goes into elmokit.Embedder(bilm)",
        )
    *options, path = map(Path, parts)
    return (options[0] if options else None), path


def _is_bundled(source: Source, path: Path) -> bool:
    """A path that is there means itself, whatever it is called."""
    return str(path) in BUNDLED and (isinstance(source, str) or not path.exists())


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
