"""Writing an HDF5 file so that a full disk is an ordinary OSError.

HDF5 does not survive a write that fails: it tries again when it closes the file, and crashes the process at its end.
So it never hears of one: the first error is kept and raised from here, and what follows is thrown away.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType
from typing import Any


class Hdf5Output:
    """A new file of datasets, to be used in a `with`; whoever opens it removes it where it ended in an error."""

    def __init__(self, path: Path) -> None:
        import h5py

        self._raw = _Patient(path, "w+")
        self._file = h5py.File(self._raw, "w")

    def __enter__(self) -> Hdf5Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._file.close()
        self._raw.close()
        if kind is None:
            self._check()

    def add(self, name: str, data: Any, *, dtype: Any) -> None:
        self._file.create_dataset(name, data=data, dtype=dtype)
        self._check()

    def _check(self) -> None:
        if self._raw.error is not None:
            raise self._raw.error


class _Patient(io.FileIO):
    """A file whose writes never fail; `error` is why the first one should have."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view) and self.error is None:
            try:
                written += super().write(view[written:])
            except OSError as error:
                self.error = error
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0
