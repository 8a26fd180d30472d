"""Where the published fixtures are, when they are on this computer: they are never part of the project."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ABSENT = "published fixtures absent: set ELMOKIT_SHARED, or put the shared folder beside the repository"


def oracles() -> Path | None:
    """The folder of published checkpoints with the vectors they give: ELMOKIT_SHARED first, then ../shared."""
    named = os.environ.get("ELMOKIT_SHARED")
    folder = (Path(named) if named else REPOSITORY.parent / "shared") / "data" / "oracles"
    return folder if folder.is_dir() else None
