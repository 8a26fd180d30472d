"""The run folder: the only link from training to reports.

    settings.toml      resolved and complete: running it again repeats the run
    environment.json   versions, hardware, command
    metrics.jsonl      one object for each event
    checkpoints/       step-000500/ ...; `latest` names the last whole one, and is written last
    best/              the best model so far
    result.json        the final scores

A checkpoint is written beside and renamed, with a checksum of each file: one that was cut off is never taken for whole.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .errors import RunError
from .files import beside, sha256
from .settings import to_toml

SUMS, LOCK = "checksums.json", ".lock"
STORES = ("store", "valid-store", "general-store", "words-store")
"""What is made of a run's text before it begins."""


class Run:
    """One run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings_file = folder / "settings.toml"
        self.result_file = folder / "result.json"
        self.best = folder / "best"

    @property
    def exists(self) -> bool:
        return self.settings_file.is_file()

    def create(self, settings: Any, environment: Mapping[str, Any]) -> None:
        """Begin a new run in an absent or empty folder."""
        self.write_json("environment.json", {**machine(), **environment})
        with beside(self.settings_file) as temporary:
            temporary.write_text(to_toml(settings), encoding="utf-8")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process out of the folder, and this one out of a folder that holds something else."""
        foreign = self.folder.exists() and not self.exists and not all(map(_ours, self.folder.iterdir()))
        if foreign:
            raise RunError(f"{self.folder} is not empty and holds no run", hint="choose another folder with --out")
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("a") as file:
            try:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:  # Windows: two runs in one folder are the user's to avoid
                pass
            except OSError as error:
                raise RunError(
                    f"{self.folder} is in use by another process", hint="wait for it, or choose another --out"
                ) from error
            yield

    def log(self, event: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def events(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; one that was cut off is left out."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
        return [json.loads(line) for line in lines[:-1]]

    def forget_after(self, step: int) -> None:
        """Drop the events of steps that will be run again."""
        kept = [json.dumps(event) + "\n" for event in self.events() if event.get("step", 0) <= step]
        with beside(self.folder / "metrics.jsonl") as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")

    def write_json(self, name: str, data: Mapping[str, Any]) -> None:
        with beside(self.folder / name) as temporary:
            temporary.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")

    def result(self) -> dict[str, Any] | None:
        """What a finished run came to."""
        return json.loads(self.result_file.read_text(encoding="utf-8")) if self.result_file.is_file() else None

    def save(self, step: int, write: Callable[[Path], None], *, keep: int = 2) -> Path:
        """Let `write` fill a checkpoint, make it the latest, and remove those before the last `keep`."""
        folder = self.folder / "checkpoints" / f"step-{step:08d}"
        temporary = folder.with_name(f".{folder.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        write(temporary)
        sums = {
            str(path.relative_to(temporary)): sha256(path) for path in sorted(temporary.rglob("*")) if path.is_file()
        }
        (temporary / SUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
        with beside(folder.parent / "latest") as latest:
            latest.write_text(folder.name + "\n", encoding="utf-8")
        for old in list(self._checkpoints())[keep:]:
            shutil.rmtree(old)
        return folder

    @contextmanager
    def replacing(self, name: str) -> Iterator[Path]:
        """A folder to fill that takes the place of `name` when it is whole."""
        target, temporary, old = (
            self.folder / f"{dot}{name}{end}" for dot, end in (("", ""), (".", ".tmp"), (".", ".old"))
        )
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        if target.exists():
            target.rename(old)
        temporary.rename(target)
        shutil.rmtree(old, ignore_errors=True)

    def latest(self, *, say: Callable[[str], None]) -> Path | None:
        """The newest checkpoint that is whole; `say` is told of each one that is passed over."""
        damaged = []
        for folder in list(self._checkpoints()):
            damage = _damage(folder)
            if damage is None:
                return folder
            say(f"{folder.name} is damaged ({damage}): going back to the one before")
            # Out of the way of the checkpoints to come, which are of earlier steps.
            damaged.append(folder.rename(folder.with_name(f"damaged-{folder.name}")))
        if damaged:
            raise RunError(
                f"{self.folder}: no checkpoint is whole ({len(damaged)} are damaged)",
                hint=f"the best model so far is in {self.best}; start again in another folder",
            )
        return None

    def _checkpoints(self) -> Iterator[Path]:
        """Newest first."""
        yield from sorted((self.folder / "checkpoints").glob("step-*"), reverse=True)


def _ours(path: Path) -> bool:
    """Whether a run that was stopped before it began may have left this."""
    return path.name in (*STORES, LOCK, "environment.json") or path.name.endswith(".tmp")


def machine() -> dict[str, Any]:
    """What a result depends on beside its settings."""
    found: dict[str, Any] = {
        "elmokit": version("elmokit"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        found |= {"torch": torch.__version__, "threads": torch.get_num_threads(), "gpu": gpu}
    return found


def _damage(folder: Path) -> str | None:
    try:
        sums = json.loads((folder / SUMS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"no {SUMS}"
    for name, expected in sums.items():
        path = folder / name
        if not path.is_file() or sha256(path) != expected:
            return f"{name} is {'changed' if path.is_file() else 'missing'}"
    return None
