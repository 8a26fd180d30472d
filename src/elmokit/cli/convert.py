"""`elmokit convert`: a model from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..errors import SettingsError


def convert(
    source: str,
    out: Path,
    /,
    *,
    to: Literal["native", "bilm-hdf5"],
    options: Path | None = None,
    verify: bool = False,
    force: bool = False,
) -> None:
    """Write a model in another format.

    Parameters
    ----------
    source
        A bundled model, a folder, or a weights file.
    out
        A folder to write to; for bilm-hdf5 it may also be the name of the weights file.
    to
        The format to write.
    options
        The options.json of an HDF5 file, where it does not lie beside it.
    verify
        Read the result again, and compare every tensor, and the vectors of a few sentences.
    force
        Overwrite what is there.
    """
    if not force and out.exists() and (out.is_file() or any(out.iterdir())):
        raise SettingsError(f"{out} exists and is not empty", hint="choose another name, or add --force")
    from ..weights.load import files_in_the_way, read_weights, write_weights
    from ..weights.verify import verify_copy

    bundle = read_weights((options, source) if options else source)
    in_the_way = [] if force else files_in_the_way(bundle, out, format=to)
    if in_the_way:
        names = ", ".join(map(str, in_the_way))
        raise SettingsError(f"{names}: would be overwritten", hint="choose another name, or add --force")
    files = write_weights(bundle, out, format=to)
    for path in files:
        print(f"{path}  {path.stat().st_size:,} bytes")
    if verify:
        print(verify_copy(bundle, files[0]))
