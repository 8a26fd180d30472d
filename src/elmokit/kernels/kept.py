"""What is made from a module's weights once, and again when a weight has changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from torch import Tensor, nn

T = TypeVar("T")


class Kept(Generic[T]):
    """A thing made from a module, until one of the module's weights is changed, moved or replaced."""

    def __init__(self) -> None:
        self._made: tuple[Hashable, T] | None = None
        self._weights: list[Tensor] = []

    def get(self, module: nn.Module, make: Callable[[], T], *, kind: Hashable = None) -> T:
        """What was made, if that was of the same kind and the weights are still what they were."""
        now = kind, _stamp(module)
        if self._made is None or self._made[0] != now:
            self._made = None  # the old one need not wait in memory for the new one
            # Held, so that no other weight is given the address of one of these.
            self._weights = [weight.detach() for weight in module.parameters()]
            self._made = (now, make())
        return self._made[1]

    def __reduce__(self) -> tuple[type[Kept[T]], tuple[()]]:
        # It belongs to these very weights: a copy makes its own.
        return Kept, ()


def _stamp(module: nn.Module) -> Hashable:
    return tuple(
        (weight.data_ptr(), 0 if weight.is_inference() else weight._version, weight.dtype, weight.device)
        for weight in module.parameters()
    )
