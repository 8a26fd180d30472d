"""The tree of errors: what catches what, what a user reads, and that all problems are told at once."""

from __future__ import annotations

import inspect
import pickle

import pytest

from elmokit import errors
from elmokit.errors import ElmokitError, MissingExtra, SettingsError, ShapeMismatch, WeightsError, all_at_once

TREE = {
    "SettingsError": (ElmokitError, ValueError),
    "DataError": (ElmokitError, ValueError),
    "WeightsError": (ElmokitError,),
    "UnknownFormat": (WeightsError,),
    "MissingTensor": (WeightsError,),
    "ShapeMismatch": (WeightsError,),
    "ChecksumMismatch": (WeightsError,),
    "MissingExtra": (ElmokitError, ImportError),
    "RunError": (ElmokitError,),
}
KINDS = [getattr(errors, name) for name in ("ElmokitError", *TREE)]


def test_the_tree_is_the_one_that_is_drawn() -> None:
    defined = {name: kind.__bases__ for name, kind in inspect.getmembers(errors, inspect.isclass) if kind in KINDS}
    defined.pop("ElmokitError")
    assert defined == TREE
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in TREE)
    public = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
    assert public == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hint_stands_on_a_line_of_its_own(kind: type[ElmokitError]) -> None:
    assert str(kind("x.hdf5: empty", hint="fetch it again")) == "x.hdf5: empty\n  hint: fetch it again"
    assert str(kind("x.hdf5: empty")) == "x.hdf5: empty"


@pytest.mark.parametrize("kind", KINDS)
def test_errors_cross_process_borders_whole(kind: type[ElmokitError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("what", hint="do")))
    assert (type(copy), copy.message, copy.hint, str(copy)) == (kind, "what", "do", "what\n  hint: do")


def test_a_missing_extra_comes_with_the_command() -> None:
    error = MissingExtra.named("spacy", "the spaCy pipe")
    assert error.message == "the spaCy pipe needs the extra 'spacy'"
    assert error.hint == "pip install 'elmokit[spacy]'"
    with pytest.raises(ImportError):
        raise error


def test_settings_are_value_errors_too() -> None:
    with pytest.raises(ValueError, match="wrong"):
        raise SettingsError("wrong")
    assert not issubclass(ShapeMismatch, ValueError)


def test_one_problem_is_a_sentence_and_several_are_a_list() -> None:
    assert all_at_once(["x is missing"], "w.hdf5") == "w.hdf5: x is missing"
    assert all_at_once(["a", "b"], "w.hdf5") == "w.hdf5: 2 problems\n  - a\n  - b"
