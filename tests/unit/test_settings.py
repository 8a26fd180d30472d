"""Frozen dataclasses to and from plain data: strictly, with every problem of one file told at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from elmokit import BiLMConfig
from elmokit.errors import SettingsError
from elmokit.settings import check, from_plain, nearest, overridden, read_toml, to_plain, to_toml


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: int = 3
    rate: float = 0.5

    def __post_init__(self) -> None:
        check((self.size > 0, f"size must be positive, found {self.size}"), (self.rate < 9, "rate must be below 9"))


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None
    limit: float | None = 2.0
    on: bool = True
    mode: Literal["fast", "slow"] = "fast"
    pairs: tuple[tuple[int, int], ...] = ((1, 2),)
    free: Mapping[str, Any] = field(default_factory=dict)


def problem(**data: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        from_plain(Outer, data, where="run.toml")
    assert caught.value.message.startswith("run.toml: ")
    return caught.value.message


@pytest.mark.parametrize(
    "settings",
    [
        Outer(name="a"),
        Outer(name="", maybe=Inner(size=4), limit=None, on=False, mode="slow", pairs=(), free={"x": [1, None]}),
        Outer(name="Ärger\n\"'\\", inner=Inner(rate=-1e-300), limit=1e300, pairs=((1, 2), (3, 4))),
    ],
    ids=["defaults", "others", "extremes"],
)
def test_settings_come_back_equal_through_json(settings: Outer) -> None:
    data = json.loads(json.dumps(to_plain(settings)))
    assert from_plain(Outer, data, where="x") == settings


@pytest.mark.parametrize("preset", ["tiny", "small", "medium", "original"])
def test_configs_come_back_equal_through_json_and_toml(preset: str, tmp_path: Path) -> None:
    config: BiLMConfig = getattr(BiLMConfig, preset)()
    assert from_plain(BiLMConfig, json.loads(json.dumps(to_plain(config))), where="x") == config
    (tmp_path / "x.toml").write_text(to_toml(config), encoding="utf-8")
    assert from_plain(BiLMConfig, read_toml(tmp_path / "x.toml"), where="x") == config


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    assert problem(name="a", inner={"sise": 3}) == "run.toml: unknown key 'inner.sise' (did you mean 'size'?)"
    assert problem(name="a", zzz=3) == "run.toml: unknown key 'zzz'"


def test_a_missing_key_is_named() -> None:
    assert problem() == "run.toml: missing key 'name'"


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("name", 3, "name: expected a text, found 3"),
        ("name", None, "name: expected a text, found None"),
        ("on", 1, "on: expected true or false, found 1"),
        ("mode", "slwo", "mode: expected one of 'fast', 'slow', found 'slwo'"),
        ("mode", ["fast"], "mode: expected one of 'fast', 'slow', found ['fast']"),
        ("mode", {}, "mode: expected one of"),
        ("inner", 3, "inner: expected a table, found 3"),
        ("inner", None, "inner: expected a table, found None"),
        ("maybe", [], "maybe: expected a table, found []"),
        ("free", [], "free: expected a table, found []"),
        ("pairs", 3, "pairs: expected a list, found 3"),
        ("pairs", "12", "pairs: expected a list, found '12'"),
        ("pairs", [3], "pairs[0]: expected a list, found 3"),
        ("pairs", [[1, 2, 3]], "pairs[0]: expected 2 values, found [1, 2, 3]"),
        ("pairs", [[1, 2], [1, 2.5]], "pairs[1][1]: expected a whole number, found 2.5"),
        ("pairs", [[True, 2]], "pairs[0][0]: expected a whole number, found True"),
    ],
)
def test_a_value_of_another_type_is_refused_by_key(key: str, value: Any, shown: str) -> None:
    assert shown in problem(**{"name": "a", key: value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), True, "2", [], 10**400, -(10**400)])
def test_a_number_is_finite_and_no_truth_value(value: Any) -> None:
    """A whole number beyond any float came out as Python's OverflowError."""
    for data in ({"limit": value}, {"inner": {"rate": value}}):
        assert "expected a number, found" in problem(name="a", **data)


@pytest.mark.parametrize("value", [3, -2, 0, sys.float_info.max, -sys.float_info.max, 5e-324])
def test_a_whole_number_is_a_number_too(value: float) -> None:
    limit = from_plain(Outer, {"name": "a", "limit": value}, where="x").limit
    assert limit == value and isinstance(limit, float)


def test_everything_wrong_is_told_at_once() -> None:
    message = problem(nmae="a", on="yes", inner={"size": 0, "rate": 10}, maybe={"size": "3", "x": 1})
    assert "6 problems" in message
    for part in (
        "unknown key 'nmae' (did you mean 'name'?)",
        "missing key 'name'",
        "on: expected true or false",
        "inner: size must be positive, found 0; rate must be below 9",
        "maybe.size: expected a whole number",
        "unknown key 'maybe.x'",
    ):
        assert part in message


@pytest.mark.parametrize("data", [None, [], 3, "text"])
def test_what_is_no_table_is_refused(data: Any) -> None:
    with pytest.raises(SettingsError, match="the file: expected a table"):
        from_plain(Outer, data, where="x")


def test_a_long_value_is_shown_in_part() -> None:
    assert len(problem(name=["x" * 10_000])) < 200


def test_nearest_names_one_or_nothing() -> None:
    assert nearest("lstm.dmi", ["lstm.dim", "token_dim"]) == " (did you mean 'lstm.dim'?)"
    assert nearest("qqq", ["lstm.dim"]) == "" == nearest("x", [])


def test_check_names_every_broken_rule() -> None:
    check((True, "fine"))
    with pytest.raises(SettingsError, match=r"^one; three$"):
        check((False, "one"), (True, "two"), (False, "three"))


# --- TOML ------------------------------------------------------------------------------------------------------------


def test_nothing_is_written_and_read_as_none(tmp_path: Path) -> None:
    settings = Outer(name="Ärger\n\"'", limit=None, inner=Inner(size=4))
    (tmp_path / "x.toml").write_text(to_toml(settings), encoding="utf-8")
    assert from_plain(Outer, read_toml(tmp_path / "x.toml"), where="x") == settings


@pytest.mark.parametrize("content", [b"[lstm", b"a = \n", b'a = "\xff"'])
def test_what_is_not_toml_is_refused_with_the_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=r"x\.toml: not TOML"):
        read_toml(tmp_path / "x.toml")


def test_a_missing_toml_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml: cannot be read"):
        read_toml(tmp_path / "nowhere.toml")


def test_overrides_change_one_key_and_leave_the_data_alone() -> None:
    data = {"model": {"lstm": {"dim": 3}}, "name": "a"}
    assert overridden(data, ["model.lstm.dim=4", "name=b c"]) == {"model": {"lstm": {"dim": 4}}, "name": "b c"}
    assert overridden(data, ["dim=4"])["model"]["lstm"]["dim"] == 4
    assert data == {"model": {"lstm": {"dim": 3}}, "name": "a"}
    with pytest.raises(SettingsError, match="expected key=value"):
        overridden(data, ["dim"])
