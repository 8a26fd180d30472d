"""Frozen dataclasses to and from plain data (what JSON and TOML hold), strictly.

Every problem of one file is told at once: an unknown key with the nearest name, a wrong type, a missing value.
Settings check themselves in `__post_init__` and raise `SettingsError`; the key is added here.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from .errors import SettingsError, all_at_once

T = TypeVar("T")


def to_plain(settings: Any) -> dict[str, Any]:
    """What `from_plain` reads back to an equal object."""
    plain = _plain(settings)
    assert isinstance(plain, dict)
    return plain


def from_plain(cls: type[T], data: Mapping[str, Any], *, where: str) -> T:
    """Build `cls` from plain data; `where` (a file) begins every message."""
    problems: list[str] = []
    settings = _build(cls, data, key="", problems=problems)
    if problems:
        raise SettingsError(all_at_once(problems, where))
    return settings


def nearest(word: str, known: Sequence[str]) -> str:
    """' (did you mean x?)', or nothing where no known name is near."""
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def check(*rules: tuple[bool, str]) -> None:
    """Raise one SettingsError that names every broken rule."""
    broken = [message for holds, message in rules if not holds]
    if broken:
        raise SettingsError("; ".join(broken))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _build(cls: type, data: Any, *, key: str, problems: list[str]) -> Any:
    if not isinstance(data, Mapping):
        problems.append(f"{key or 'the file'}: expected a table, found {_shown(data)}")
        return None
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    known_before = len(problems)
    for name in data:
        if name not in fields:
            problems.append(f"unknown key '{_join(key, str(name))}'{nearest(str(name), list(fields))}")
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _convert(hints[name], data[name], key=_join(key, name), problems=problems)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            problems.append(f"missing key '{_join(key, name)}'")
    return None if len(problems) > known_before else _construct(cls, values, key=key, problems=problems)


def _construct(cls: type, values: dict[str, Any], *, key: str, problems: list[str]) -> Any:
    try:
        return cls(**values)
    except SettingsError as error:
        problems.append(f"{key}: {error.message}" if key else error.message)
        return None


def _convert(hint: Any, value: Any, *, key: str, problems: list[str]) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, key=key, problems=problems)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _convert(inner, value, key=key, problems=problems)
    if origin is typing.Literal:
        if value not in arguments or isinstance(value, bool):
            problems.append(f"{key}: expected one of {', '.join(map(repr, arguments))}, found {_shown(value)}")
        return value
    if origin in (collections.abc.Mapping, dict) or hint is dict:
        if not isinstance(value, Mapping):
            problems.append(f"{key}: expected a table, found {_shown(value)}")
        return value
    if origin is tuple:
        return _tuple(arguments, value, key=key, problems=problems)
    if not _is_a(hint, value):
        problems.append(f"{key}: expected {_named(hint)}, found {_shown(value)}")
        return value
    return float(value) if hint is float else value


def _tuple(arguments: tuple[Any, ...], value: Any, *, key: str, problems: list[str]) -> Any:
    if not isinstance(value, list | tuple):
        problems.append(f"{key}: expected a list, found {_shown(value)}")
        return value
    endless = len(arguments) == 2 and arguments[1] is Ellipsis
    hints = [arguments[0]] * len(value) if endless else list(arguments)
    if len(hints) != len(value):
        problems.append(f"{key}: expected {len(hints)} values, found {_shown(value)}")
        return value
    return tuple(
        _convert(hint, item, key=f"{key}[{i}]", problems=problems)
        for i, (hint, item) in enumerate(zip(hints, value, strict=True))
    )


def _is_a(hint: Any, value: Any) -> bool:
    if hint is float:  # 3 is a number too; true, NaN and infinity are not
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _named(hint: Any) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(hint, str(hint))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
