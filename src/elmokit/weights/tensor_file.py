"""Writing safetensors, whose own errors of a full disk are no OSError."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(f"{path}: cannot be written: {error}") from error
