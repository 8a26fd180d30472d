"""Keeping a function, and all that it calls, out of compiled graphs without importing the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def outside_graphs(function: Function) -> Function:
    """As `torch.compiler.disable`, which imports the whole compiler (0.8 s) to decorate.

    These are its two marks: not to draw the function into a graph, and not to begin a graph in it or below. The second
    has no public name; where a PyTorch has it under another, the function is compiled piece by piece, and right.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    frames: Any = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(function.__code__, skip)
    return function
