"""The engine against AllenNLP's module, as `elmokit bench` measures it, kept under `results/`.

python benchmarks/engine.py --shape original --allennlp-python RIVAL/bin/python --save
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import re
import shlex
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measuring import RESULTS, commit, save_result
from original_checkpoint import SHAPES, write_checkpoint

from elmokit.errors import ElmokitError
from elmokit.measure.bench import BenchSettings, bench
from elmokit.measure.text import batch_sizes


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """What `elmokit bench --json` prints, and what is needed to repeat it."""
    with ExitStack() as stack:
        model: Any = args.model
        if model is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / args.shape
            model = write_checkpoint(folder, SHAPES[args.shape], seed=args.seed)
        settings = BenchSettings(
            model=model,
            against=args.against,
            batch=batch_sizes(args.batch),
            precision=args.precision,
            device=args.device,
            text=args.text,
            rounds=args.rounds,
            words=args.words,
            allennlp_python=args.allennlp_python,
        )
        report = dataclasses.asdict(bench(settings, say=lambda line: print(line, file=sys.stderr)))
    shown = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return {
        "theme": "engine",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "benchmarks/engine.py", *shown]),
        "commit": commit(),
        "shape": args.shape if args.model is None else args.model.name,
        "words": args.words,
        **report,
    }


def heading(result: dict[str, Any]) -> str:
    """One line under which the table stands."""
    threads = "" if result["device"].startswith("cuda") else f", {result['threads']} thread(s)"
    return (
        f"Inference, {result['shape']} shape, {result['precision']}, {result['device_name']}{threads}, torch "
        f"{result['torch']}, median (quartiles) of {result['rounds']} rounds, {result['date'][:10]}, "
        f"commit {result['commit'] or 'none'}"
    )


def table(result: dict[str, Any]) -> str:
    """The result as a Markdown table."""
    lines = [
        "| batch | side | words/s | times AllenNLP | of ceiling | difference | memory, GB |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["results"]:
        held = row["process_bytes"] if row["device_bytes"] is None else row["device_bytes"]
        difference = row["largest_difference"]
        cells = [
            str(row["batch"]),
            row["side"],
            _spread(row["words_per_second"], ",.0f"),
            "" if row["ratio"] is None else _spread(row["ratio"], ".2f"),
            f"{row['share_of_ceiling']:.1%}",
            "" if difference is None else f"{difference:.1e}",
            f"{held / 1e9:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    ceilings = ", ".join(f"{name} {flops / 1e9:,.0f}" for name, flops in result["ceiling"].items())
    return "\n".join([*lines, "", f"Ceiling, GFLOP/s: {ceilings}."])


def _spread(values: dict[str, float], form: str) -> str:
    return f"{values['median']:{form}} ({values['low']:{form}} … {values['high']:{form}})"


def default_stem(result: dict[str, Any]) -> Path:
    """`results/engine-<shape>-<precision>_<hardware>_<date>`."""
    hardware = re.sub(r"[^a-z0-9]+", "-", result["device_name"].lower()).strip("-")
    if not result["device"].startswith("cuda"):
        hardware += f"-{result['threads']}-threads"
    return RESULTS / f"engine-{result['shape']}-{result['precision']}_{hardware}_{result['date'][:10]}"


def parser() -> argparse.ArgumentParser:
    """What may vary between two runs."""
    arguments = argparse.ArgumentParser(description="Compare inference: AllenNLP's biLM against elmokit.")
    arguments.add_argument("--shape", choices=SHAPES, default="small", help="of a random model (small)")
    arguments.add_argument("--seed", type=int, default=0, help="of its weights (0)")
    arguments.add_argument("--model", type=Path, help="measure this model instead")
    arguments.add_argument("--against", choices=("allennlp", "none"), default="allennlp")
    arguments.add_argument("--allennlp-python", help="interpreter of the environment with AllenNLP (this one)")
    arguments.add_argument("--batch", default="1,32,128", help="sentences in a batch (1,32,128)")
    arguments.add_argument("--precision", default="float32")
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--text", type=Path, help="a sentence a line (the text that comes with elmokit)")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--words", type=int, default=3000, help="batches are taken until they hold so many (3000)")
    arguments.add_argument("--save", action="store_true", help="write the result under benchmarks/results")
    arguments.add_argument("--out", type=Path, help="write to OUT.json and OUT.md instead")
    return arguments


def main() -> int:
    """Print the table and, where asked, keep the result."""
    args = parser().parse_args()
    try:
        result = measure(args)
    except ElmokitError as error:
        print(f"{error.message}\n{error.hint}", file=sys.stderr)
        return 1
    page = f"{heading(result)}\n\n{table(result)}"
    print(page)
    if args.out or args.save:
        save_result(result, args.out or default_stem(result), page=page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
