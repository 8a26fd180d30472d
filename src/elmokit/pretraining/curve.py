"""The loss curve of a run: as a picture where matplotlib is installed, as text everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..runs import Run

LEVELS = "▁▂▃▄▅▆▇█"


def points(run: Run) -> list[tuple[float, float]]:
    """(minutes, perplexity) of each evaluation."""
    return [(e["seconds"] / 60, e["perplexity"]) for e in run.events() if e["event"] == "valid"]


def as_text(values: Sequence[float], *, width: int = 60) -> str:
    """A line of blocks, highest first value to lowest."""
    if not values:
        return ""
    step = max(1, -(-len(values) // width))
    shown = values[::step]
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return "".join(LEVELS[round((value - low) / span * (len(LEVELS) - 1))] for value in shown)


def as_picture(run: Run, path: Path) -> bool:
    """Write a PNG; False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    curve = points(run)
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([x for x, _ in curve], [y for _, y in curve], marker="o", markersize=3, color="#2a6f97")
    axes.set(xlabel="minutes", ylabel="perplexity on the validation text", yscale="log", title=run.folder.name)
    axes.grid(visible=True, alpha=0.3, which="both")
    figure.savefig(path, dpi=150)
    return True
