"""Frozen dataclasses to and from plain data (what JSON and TOML hold), strictly, and TOML files of them.

Every problem of one file is told at once: an unknown key with the nearest name, a wrong type, a missing value.
Settings check themselves in `__post_init__` and raise `SettingsError`; the key is added here.
"""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import difflib
import json
import sys
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
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


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; what is wrong with it is an error with its place."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}", hint="see https://toml.io for the form") from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})", hint="check the path") from error


def to_toml(settings: Any) -> str:
    """A TOML text that reads back to equal settings. TOML has no null: None is written "none"."""
    return "\n".join(_toml_table(to_plain(settings), name="")).lstrip("\n") + "\n"


def overridden(data: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """`data` with `key=value` changes, the value in TOML or a bare word; a key may leave out its first tables."""
    result = copy.deepcopy(dict(data))
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise SettingsError(f"--set {change}: expected key=value", hint="for example --set batch.rows=64")
        _set(result, key.strip(), _value(text.strip()))
    return result


def nearest(word: str, known: Sequence[str]) -> str:
    """' (did you mean x?)', or nothing where no known name is near."""
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def check(*rules: tuple[bool, str]) -> None:
    """Raise one SettingsError that names every broken rule."""
    broken = [message for holds, message in rules if not holds]
    if broken:
        raise SettingsError("; ".join(broken))


def _toml_table(table: Mapping[str, Any], name: str) -> list[str]:
    lines = [f"{key} = {_toml_value(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    if lines and name:
        lines = ["", f"[{name}]", *lines]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _toml_table(value, _join(name, key))
    return lines


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps("none" if value is None else value, ensure_ascii=False)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    *tables, name = _whole_key(data, key).split(".")
    for table in tables:
        data = data.setdefault(table, {})
        if not isinstance(data, dict):
            raise SettingsError(f"--set {key}: '{table}' is a value, not a table")
    data[name] = value


def _whole_key(data: Mapping[str, Any], key: str) -> str:
    """The one key of the settings that ends so, else the key as it is."""
    ending = [known for known in _keys(data) if f".{known}".endswith(f".{key}")]
    if len(ending) > 1 and key not in ending:
        raise SettingsError(f"--set {key}: could be {' or '.join(ending)}", hint="write more of it")
    return key if key in ending or not ending else ending[0]


def _keys(data: Mapping[str, Any], name: str = "") -> list[str]:
    keys = []
    for key, value in data.items():
        keys += _keys(value, _join(name, key)) if isinstance(value, Mapping) else [_join(name, key)]
    return keys


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
        if value in (None, "none") and type(None) in arguments:
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
    if hint is float:  # 3 is a number too; true, NaN, infinity and whole numbers beyond any float are not
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
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
