"""A mirror: files and functions that fit in a reader's head."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import elmokit

SOURCE = Path(elmokit.__file__).parent
FILES = {path: path.read_text() for path in SOURCE.rglob("*.py")}


def functions() -> list[tuple[int, str]]:
    found = []
    for path, text in FILES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                # A Triton kernel's signature lists its sizes line by line.
                first = node.body[0].lineno if path.name.startswith("triton_") else node.lineno
                found.append((node.end_lineno - first + 1, f"{path.name}:{node.name}"))
    return sorted(found)


def test_files_are_short() -> None:
    lengths = sorted((text.count("\n"), path.name) for path, text in FILES.items())
    assert lengths[-1][0] <= 450, lengths[-3:]
    assert statistics.median(n for n, _ in lengths) <= 150


def test_functions_are_short() -> None:
    lengths = functions()
    assert lengths[-1][0] <= 75, lengths[-3:]
    assert statistics.median(n for n, _ in lengths) <= 12


def test_the_model_can_be_read_in_one_sitting() -> None:
    assert sum(text.count("\n") for path, text in FILES.items() if path.parent.name == "model") <= 900


def test_every_module_says_what_it_is_for() -> None:
    assert [path.name for path, text in FILES.items() if ast.get_docstring(ast.parse(text)) is None] == []
