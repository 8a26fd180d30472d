"""Loading: AllenNLP's `_ElmoBiLm` against `elmokit.load_bilm`, from the same HDF5 file and from elmokit's own folder.

Every figure comes from a fresh process, because a second load finds warm allocators and imported code. Sides take
turns, so that a machine that slows down slows all of them, and the files are read once beforehand, so that all find
them in the page cache. `benchmarks/README.md` says what each column means.

    python benchmarks/load.py --rival-python RIVAL/bin/python --save
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import BENCHMARKS, RESULTS, commit, cpu_name, save_result, spread
from original_checkpoint import OPTIONS_NAME, SHAPES, WEIGHTS_NAME, write_checkpoint

RIVAL = "allennlp"
FROM_HDF5 = "elmokit-hdf5"
FROM_NATIVE = "elmokit-native"
SIDES = (RIVAL, FROM_HDF5, FROM_NATIVE)
TITLES = {RIVAL: "AllenNLP, HDF5", FROM_HDF5: "elmokit, HDF5", FROM_NATIVE: "elmokit, native folder"}

# Each is a whole program, run by its side's interpreter: sys.argv holds the benchmarks folder, then what to load.
RIVAL_PROGRAM = """
import json, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/rivals"]
from measuring import measure_loading

def import_side():
    from allennlp_elmo import elmo_module
    return elmo_module()

def load(elmo):
    return elmo._ElmoBiLm(sys.argv[2], sys.argv[3]).eval()

packages = ("allennlp", "torch", "numpy", "h5py")
print(json.dumps(measure_loading(import_side, load, packages=packages)))
"""

# elmokit's public names are resolved lazily, so naming the function is what imports; torch and h5py would otherwise be
# imported by the load and be counted there, where AllenNLP's are not.
ELMOKIT_PROGRAM = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from measuring import measure_loading

def import_side():
    import torch
    if len(sys.argv) == 4:
        import h5py
    import elmokit
    return elmokit.load_bilm

def load(load_bilm):
    source = tuple(sys.argv[2:]) if len(sys.argv) == 4 else sys.argv[2]
    return load_bilm(source).eval()

packages = ("elmokit", "torch", "numpy", "h5py", "safetensors")
print(json.dumps(measure_loading(import_side, load, packages=packages)))
"""


class BenchmarkError(RuntimeError):
    """A side could not be measured."""


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One side: who runs its program, and on which files."""

    name: str
    python: str
    program: str
    sources: tuple[Path, ...]

    def measure(self) -> dict[str, Any]:
        """Import and load once, in a process of its own."""
        files = [str(source) for source in self.sources]
        result: dict[str, Any] = json.loads(
            _output([self.python, "-c", self.program, str(BENCHMARKS), *files], self.name)
        )
        return result


def _output(command: list[str], who: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BenchmarkError(f"{who}: {command[0]} cannot be run ({error.strerror})") from error
    if done.returncode:
        raise BenchmarkError(f"{who} failed:\n{done.stderr.strip()}")
    return done.stdout


def convert_to_native(checkpoint: Path, out: Path) -> Path:
    """elmokit's own folder, made as a user would make it."""
    _output([sys.executable, "-m", "elmokit", "convert", str(checkpoint), str(out), "--to", "native"], FROM_NATIVE)
    return out


def contestants(sides: Sequence[str], checkpoint: Path, native: Path, rival_python: str | None) -> list[Contestant]:
    """The sides that can be measured; the rival is left out, with a message, where it has no interpreter."""
    files = (checkpoint / OPTIONS_NAME, checkpoint / WEIGHTS_NAME)
    found = []
    if RIVAL in sides and rival_python is None:
        print("AllenNLP skipped: no --rival-python (benchmarks/README.md has the commands)", file=sys.stderr)
    elif RIVAL in sides and rival_python is not None:
        found.append(Contestant(name=RIVAL, python=rival_python, program=RIVAL_PROGRAM, sources=files))
    if FROM_HDF5 in sides:
        found.append(Contestant(name=FROM_HDF5, python=sys.executable, program=ELMOKIT_PROGRAM, sources=files))
    if FROM_NATIVE in sides:
        found.append(Contestant(name=FROM_NATIVE, python=sys.executable, program=ELMOKIT_PROGRAM, sources=(native,)))
    return found


def warm_page_cache(field: Sequence[Contestant]) -> None:
    """Read every file of every side, so that none pays for the disk."""
    for path in {path for one in field for source in one.sources for path in _files(source)}:
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


def _files(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
    else:
        yield from (path for path in source.rglob("*") if path.is_file())


def interleaved(field: Sequence[Contestant], repeats: int, weight_bytes: int) -> dict[str, list[dict[str, Any]]]:
    """`repeats` measurements of each side in turns; who goes first rotates, and one unrecorded turn comes before."""
    runs: dict[str, list[dict[str, Any]]] = {one.name: [] for one in field}
    for turn in range(-1, repeats):
        first = turn % len(field)
        for one in [*field[first:], *field[:first]]:
            result = one.measure()
            if result["storage_bytes"] < weight_bytes:
                loaded = f"{result['storage_bytes']:,} of {weight_bytes:,} bytes of weights"
                raise BenchmarkError(f"{one.name} loaded {loaded}: not the same work")
            if turn >= 0:
                runs[one.name].append(result)
    return runs


def summary(runs: dict[str, list[dict[str, Any]]], weight_bytes: int) -> dict[str, dict[str, Any]]:
    """Medians and spreads of each side, and how many times as fast as the rival it is."""
    rows = {}
    for name, many in runs.items():
        measured = [field for field, value in many[0].items() if isinstance(value, int | float)]
        row: dict[str, Any] = {field: spread([run[field] for run in many]) for field in measured}
        for field in ("load_peak_growth_bytes", "peak_growth_bytes", "kept_growth_bytes"):
            row[field.removesuffix("_bytes") + "_per_weight_byte"] = row[field]["median"] / weight_bytes
        if RIVAL in runs:
            row["times_as_fast"] = _ratios(runs[RIVAL], many)
        rows[name] = row
    return rows


def _ratios(rival: list[dict[str, Any]], ours: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The ratio of medians, and the spread of the turns' own ratios."""
    ratios = {}
    for field in ("load_seconds", "load_and_touch_seconds", "import_and_load_seconds"):
        theirs, mine = [run[field] for run in rival], [run[field] for run in ours]
        turns = [their / my for their, my in zip(theirs, mine, strict=True)]
        medians = statistics.median(theirs) / statistics.median(mine)
        ratios[field] = {"of_medians": medians, "min": min(turns), "max": max(turns)}
    return ratios


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The result as a short Markdown table."""
    lines = [
        "| side | load, s | load and touch, s | faster than AllenNLP | with imports, s | faster | peak / weights |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        cells = [
            TITLES[name],
            _seconds(row["load_seconds"]),
            _seconds(row["load_and_touch_seconds"]),
            _times(row, "load_and_touch_seconds") if name != RIVAL else "",
            _seconds(row["import_and_load_seconds"]),
            _times(row, "import_and_load_seconds") if name != RIVAL else "",
            f"{row['peak_growth_per_weight_byte']:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _seconds(values: dict[str, float]) -> str:
    return f"{values['median']:.2f} ({values['min']:.2f} … {values['max']:.2f})"


def _times(row: dict[str, Any], field: str) -> str:
    if "times_as_fast" not in row:
        return "–"
    ratio = row["times_as_fast"][field]
    return f"{ratio['of_medians']:.2f}× ({ratio['min']:.2f} … {ratio['max']:.2f})"


def command_line() -> str:
    """The command as typed, without this machine's folders."""
    shown = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return shlex.join(["python", "benchmarks/load.py", *shown])


def report(args: argparse.Namespace, runs: dict[str, list[dict[str, Any]]], weight_bytes: int) -> dict[str, Any]:
    """Everything needed to judge the numbers and to repeat them."""
    return {
        "theme": "load",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command_line(),
        "commit": commit(),
        "hardware": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0))},
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {name: many[0]["versions"] for name, many in runs.items()},
        "shape": args.shape,
        "seed": args.seed,
        "repeats": args.repeats,
        "weight_bytes": weight_bytes,
        "summary": summary(runs, weight_bytes),
        "runs": {name: [_without(run, "versions") for run in many] for name, many in runs.items()},
    }


def _without(run: dict[str, Any], name: str) -> dict[str, Any]:
    return {field: value for field, value in run.items() if field != name}


def heading(result: dict[str, Any]) -> str:
    """One line under which the table stands."""
    hardware = result["hardware"]
    return (
        f"Loading, {result['shape']} shape ({result['weight_bytes'] / 1e6:.1f} MB), {hardware['cpu']}, "
        f"{hardware['cores']} cores, median (min … max) of {result['repeats']}, {result['date'][:10]}, "
        f"commit {result['commit'] or 'none'}"
    )


def default_stem(result: dict[str, Any]) -> Path:
    """`results/<theme>_<hardware>_<date>`; a shape other than the original is part of the theme."""
    theme = "load" if result["shape"] == "original" else f"load-{result['shape']}"
    cpu = re.sub(r"[^a-z0-9]+", "-", result["hardware"]["cpu"].lower()).strip("-")
    return RESULTS / f"{theme}_{cpu}-{result['hardware']['cores']}-cores_{result['date'][:10]}"


@contextmanager
def prepared(args: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """The checkpoint and the native folder, made in a temporary folder where none is given."""
    with tempfile.TemporaryDirectory(prefix="elmokit-load-") as temporary:
        checkpoint, native = args.checkpoint, args.native
        if checkpoint is None:
            checkpoint = Path(temporary) / "checkpoint"
            write_checkpoint(checkpoint, SHAPES[args.shape], seed=args.seed)
        if native is None:
            native = Path(temporary) / "native"
            if FROM_NATIVE in args.sides:
                convert_to_native(checkpoint, native)
        yield checkpoint, native


def check_shape(weights: Path, weight_bytes: int) -> None:
    """A checkpoint of another shape would be reported under the wrong name."""
    size = weights.stat().st_size
    if abs(size - weight_bytes) > weight_bytes // 100:
        raise BenchmarkError(f"{weights.name} has {size:,} bytes, {weight_bytes:,} expected: is --shape right?")


def benchmark(args: argparse.Namespace) -> dict[str, Any] | None:
    """The whole comparison; None where no side is left to measure."""
    weight_bytes = 4 * SHAPES[args.shape].parameters
    with prepared(args) as (checkpoint, native):
        check_shape(checkpoint / WEIGHTS_NAME, weight_bytes)
        field = contestants(args.sides, checkpoint, native, args.rival_python)
        if not field:
            return None
        warm_page_cache(field)
        runs = interleaved(field, args.repeats, weight_bytes)
    return report(args, runs, weight_bytes)


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def parser() -> argparse.ArgumentParser:
    """What may vary between two runs."""
    arguments = argparse.ArgumentParser(description="Compare loading: AllenNLP's biLM against elmokit.")
    arguments.add_argument("--rival-python", help="interpreter of the environment with AllenNLP (else it is skipped)")
    arguments.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="which to measure (all)")
    arguments.add_argument("--repeats", type=_at_least_one, default=7, help="fresh processes for each side (7)")
    arguments.add_argument("--shape", choices=SHAPES, default="original")
    arguments.add_argument("--seed", type=int, default=0, help="of the random weights (0)")
    arguments.add_argument("--checkpoint", type=Path, help=f"folder with {OPTIONS_NAME}, {WEIGHTS_NAME} of that shape")
    arguments.add_argument("--native", type=Path, help="the same weights in elmokit's own folder (else converted)")
    arguments.add_argument("--save", action="store_true", help="write the result under benchmarks/results")
    arguments.add_argument("--out", type=Path, help="write to OUT.json and OUT.md instead")
    return arguments


def main() -> int:
    """Print the table and, where asked, keep the result."""
    args = parser().parse_args()
    try:
        result = benchmark(args)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    if result is None:
        print("Nothing to measure.", file=sys.stderr)
        return 0
    page = f"{heading(result)}\n\n{table(result['summary'])}"
    print(page)
    if args.out or args.save:
        save_result(result, args.out or default_stem(result), page=page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
