"""Every error that elmokit raises on purpose.

    ElmokitError
    ├── SettingsError (ValueError)      a setting or a model's config is wrong
    ├── DataError (ValueError)          a text, a vocabulary or a labelled file is wrong
    ├── WeightsError                    a weights file is wrong
    │   ├── UnknownFormat               nobody here reads this file
    │   ├── MissingTensor               tensors that the model needs are not there
    │   ├── ShapeMismatch               tensors, options and config disagree
    │   └── ChecksumMismatch            the file is not the one that was written
    ├── MissingExtra (ImportError)      an optional package is not installed
    └── RunError                        a run cannot start, go on or be read

A message says where, what was found and what was expected; `hint` says what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence


class ElmokitError(Exception):
    """What every error here is; `hint` is the command or edit that mends it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint))


class SettingsError(ElmokitError, ValueError):
    """A setting or a model's config is wrong."""


class DataError(ElmokitError, ValueError):
    """A text, a vocabulary or a labelled file is wrong."""


class WeightsError(ElmokitError):
    """A weights file is wrong."""


class UnknownFormat(WeightsError):
    """Nobody here reads this file."""


class MissingTensor(WeightsError):
    """Tensors that the model needs are not there."""


class ShapeMismatch(WeightsError):
    """Tensors, options and config disagree."""


class ChecksumMismatch(WeightsError):
    """The file is not the one that was written."""


class MissingExtra(ElmokitError, ImportError):
    """An optional package is not installed."""

    @classmethod
    def named(cls, extra: str, needed_for: str) -> MissingExtra:
        return cls(f"{needed_for} needs the extra '{extra}'", hint=f"pip install 'elmokit[{extra}]'")


class RunError(ElmokitError):
    """A run cannot start, go on or be read."""


def all_at_once(problems: Sequence[str], where: str) -> str:
    """One message for all problems of one file: a user mends them in one go."""
    if len(problems) == 1:
        return f"{where}: {problems[0]}"
    return f"{where}: {len(problems)} problems" + "".join(f"\n  - {problem}" for problem in problems)


def _rebuild(kind: type[ElmokitError], message: str, hint: str) -> ElmokitError:
    return kind(message, hint=hint)
