"""What is made from a module's weights once, and again when a weight has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

T = TypeVar("T")


class Kept(Generic[T]):
    """A thing made from a module, until one of the module's weights is changed, moved or replaced.

    PyTorch counts changes of a tensor; one that it does not count (`weight.data.mul_(2)`, through NumPy, or of weights
    made in inference mode) is not seen. Old weights stay in memory until the next `get`.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, T] = {}
        self._stamp: Hashable = None
        self._weights: list[Tensor] = []
        self._lock = threading.Lock()

    def get(self, module: nn.Module, make: Callable[[], T], *, kind: Hashable = None) -> T:
        """What was made of this kind from these very weights, by now or before."""
        _count_fused_steps()
        with self._lock:
            stamp = _stamp(module)
            if stamp != self._stamp:
                # The old need not wait in memory for the new. The weights are held: their addresses stay theirs.
                self._made, self._weights = {}, [weight.detach() for weight in module.parameters()]
                self._stamp = stamp
            if kind not in self._made:
                self._made[kind] = make()
            return self._made[kind]

    def __reduce__(self) -> tuple[type[Kept[T]], tuple[()]]:
        # It belongs to these very weights: a copy makes its own.
        return Kept, ()


def _stamp(module: nn.Module) -> Hashable:
    return tuple(
        (weight.data_ptr(), 0 if weight.is_inference() else weight._version, weight.dtype, weight.device)
        for weight in module.parameters()
    )


@cache
def _count_fused_steps() -> None:
    """A fused optimizer changes weights and does not count it."""

    def count(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            if group.get("fused"):
                torch.autograd.graph.increment_version([w for w in group["params"] if not w.is_inference()])

    register_optimizer_step_post_hook(count)
