"""What a file is that no weight format reads, as far as its first bytes tell."""

from __future__ import annotations

from pathlib import Path

from ..errors import UnknownFormat, WeightsError


def refuse(path: Path) -> UnknownFormat | WeightsError:
    """The error for a source that no format reads; of a folder, for the file in it that is called weights."""
    if path.is_file():
        return _refuse_file(path)
    names = sorted(file.name for file in path.iterdir())
    for name in names:
        if name.endswith((".hdf5", ".h5")) and (path / name).is_file():
            return _refuse_file(path / name)
    found = f"found {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}" if names else "it is empty"
    return UnknownFormat(
        f"{path}: no model in this folder: {found}",
        hint="expected elmokit's own config.json and model.safetensors, or one HDF5 file of weights",
    )


def _refuse_file(path: Path) -> UnknownFormat | WeightsError:
    """What the file is, as far as its beginning tells."""
    with path.open("rb") as file:
        head = file.read(512)
    if head[8:10] == b'{"':
        return UnknownFormat(f"{path}: safetensors without elmokit's config.json", hint="name its model's folder")
    for begins, what, hint in _KNOWN:
        if head.lstrip().startswith(begins):
            return UnknownFormat(f"{path}: {what}, expected weights", hint=hint)
    if not head:
        return WeightsError(f"{path}: the file is empty, expected weights", hint="fetch it again")
    if all(byte in _TEXT for byte in head):
        return UnknownFormat(f"{path}: a text, expected weights: {head[:40]!r}", hint="name the weights file itself")
    return UnknownFormat(
        f"{path}: not a weights file of a known format (it begins {head[:8]!r})",
        hint="known: bilm-tf's HDF5, and elmokit's own folder of config.json and model.safetensors",
    )


_PICKLE_HINT = "a pickle can run code, so it is never opened: convert it where you trust it"
_KNOWN = (
    (
        b"version https://git-lfs",
        "a Git LFS pointer",
        "run 'git lfs pull' where you cloned it, or download the file itself",
    ),
    (b"\x80\x02", "a Python pickle", _PICKLE_HINT),
    (b"\x80\x03", "a Python pickle", _PICKLE_HINT),
    (b"\x80\x04", "a Python pickle", _PICKLE_HINT),
    (b"\x80\x05", "a Python pickle", _PICKLE_HINT),
    (b"PK\x03\x04", "a zip archive (PyTorch's .pt and .th are such)", "unpack it, or name an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first, and name the weights in it"),
    (b"BZh", "a bzip2 archive", "unpack it first, and name the weights in it"),
    (b"\xfd7zXZ", "an xz archive", "unpack it first, and name the weights in it"),
    (b"\x89HDF", "a damaged HDF5 file", "fetch it again and compare its size with the source"),
    (b"<", "a web page or XML", "the download was answered with a page: check the address"),
    (b"{", "a JSON file", "name the weights; options go with them as (options.json, weights.hdf5)"),
)
_TEXT = frozenset(range(32, 256)) | {9, 10, 12, 13}
