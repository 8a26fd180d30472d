"""What measurements share: clocks, peak memory, touched pages, the machine, versions, medians.

Runs in both sides' interpreters, so it needs the standard library and, where tensors are touched, torch. Peak memory
is the kernel's own high-water mark of resident memory (Linux), reset between importing and loading.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

Side = TypeVar("Side")
PAGE_BYTES = 4096
BENCHMARKS = Path(__file__).resolve().parent
RESULTS = BENCHMARKS / "results"


def memory_bytes(field: str) -> int:
    """One field of this process's memory: `VmRSS` now, `VmHWM` at its highest, `RssAnon`, `RssFile`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def reset_peak_memory() -> None:
    """Let `VmHWM` start again from what is resident now, so that importing does not count."""
    Path("/proc/self/clear_refs").write_text("5")


def touch(module: Any) -> int:
    """Read one number of each page of each weight; returns their bytes.

    A memory-mapped file costs nothing until it is read: without this, mapping would pass for loading.
    """
    import torch

    seen: set[tuple[int, int]] = set()
    total = 0
    for tensor in [*module.parameters(), *module.buffers()]:
        storage = tensor.untyped_storage()
        if (storage.data_ptr(), storage.nbytes()) in seen:
            continue
        seen.add((storage.data_ptr(), storage.nbytes()))
        step = PAGE_BYTES // tensor.element_size()
        pages = -(-storage.nbytes() // PAGE_BYTES)
        torch.as_strided(tensor.detach(), (pages,), (step,), 0).sum()
        total += storage.nbytes()
    return total


def measure_loading(
    import_side: Callable[[], Side], load: Callable[[Side], Any], *, packages: Iterable[str]
) -> dict[str, object]:
    """Time importing, loading and touching once, in this process, which must have done neither before."""
    start = time.perf_counter()
    side = import_side()
    imported = time.perf_counter()
    reset_peak_memory()
    baseline = memory_bytes("VmRSS")
    before = time.perf_counter()
    module = load(side)
    loaded = time.perf_counter()
    load_peak = memory_bytes("VmHWM") - baseline
    touching = time.perf_counter()
    storage_bytes = touch(module)
    touched = time.perf_counter()
    return {
        "import_seconds": imported - start,
        "load_seconds": loaded - before,
        "load_and_touch_seconds": (loaded - before) + (touched - touching),
        "import_and_load_seconds": (imported - start) + (loaded - before) + (touched - touching),
        "load_peak_growth_bytes": load_peak,
        "peak_growth_bytes": memory_bytes("VmHWM") - baseline,
        "kept_growth_bytes": memory_bytes("VmRSS") - baseline,
        "baseline_bytes": baseline,
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "storage_bytes": storage_bytes,
        "versions": versions(packages),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Python's version and those of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest: single figures move with the machine's mood."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def save_result(result: dict[str, Any], stem: Path, *, page: str) -> None:
    """Write `stem`.json, complete, and `stem`.md, to be read: `page`, and the command."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2, ensure_ascii=False)
    stem.with_name(stem.name + ".json").write_text(text + "\n", encoding="utf-8")
    stem.with_name(stem.name + ".md").write_text(f"{page}\n\n`{result['command']}`\n", encoding="utf-8")


def cpu_name() -> str:
    """The processor as Linux names it."""
    match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match.group(1).strip() if match else platform.machine()


def commit() -> str | None:
    """The commit measured, `+changes` where the tree differs from it, None outside a repository or before a commit."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes"],
            cwd=BENCHMARKS,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() or None
