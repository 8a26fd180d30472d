"""Writing beside and renaming, and checksums: nothing half-written ever takes a finished file's place."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A temporary path in the target's folder that takes its place when all went well, and is gone otherwise."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # some writers make files that their owner alone can read
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)  # the only way to read it is to set it
    os.umask(mask)
    return mask


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
