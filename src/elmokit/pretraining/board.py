"""A run's numbers for TensorBoard, beside metrics.jsonl: `--set tensorboard=true`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import MissingExtra


class Board:
    """Writes each number of an event as a curve over steps."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtra.named("tensorboard", "tensorboard=true") from error
        self._writer = SummaryWriter(str(folder))

    def add(self, event: Mapping[str, Any]) -> None:
        for key, value in event.items():
            if key != "step" and isinstance(value, int | float):
                self._writer.add_scalar(f"{event['event']}/{key}", value, event["step"])
        self._writer.flush()
