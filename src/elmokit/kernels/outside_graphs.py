"""Keeping a function out of compiled graphs without importing the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def outside_graphs(function: Function) -> Function:
    """As `torch.compiler.disable`, which imports the whole compiler (0.8 s) to decorate: this is its mark alone."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return function
