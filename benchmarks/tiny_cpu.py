"""`tiny-cpu` against n-grams: five minutes of training, then unigram and Kneser-Ney models on the same text and words.

    python benchmarks/tiny_cpu.py --train train.txt.xz --valid valid.txt.xz --test test.txt.xz \\
        --tokenizer whitespace --theme tiny-cpu-wikitext-2 --save

Both sides predict the same tokens, sentence ends among them, over the model's own vocabulary. The curve's minutes are
wall time from the start of the command, preparation included.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import ngram
from measuring import RESULTS, commit, cpu_name, versions

from elmokit.text.vocabulary import Vocabulary

ORDERS = (1, 3, 5)


def elmokit(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "elmokit", *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def train(args: argparse.Namespace, run: Path) -> dict[str, Any]:
    line = ["pretrain", "tiny-cpu", "--corpus", str(args.train), "--valid", str(args.valid), "--out", str(run)]
    elmokit(*line, "--tokenizer", args.tokenizer, "--seed", str(args.seed), *args.extra)
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "command": ["elmokit", *line[:2], "...", *args.extra],
        "result": json.loads((run / "result.json").read_text()),
        "curve": [
            {"minutes": e["seconds"] / 60, "perplexity": e["perplexity"]} for e in events if e["event"] == "valid"
        ],
        "test": json.loads(elmokit("perplexity", str(args.test), "--model", str(run), "--json")),
    }


def compare_with_ngrams(args: argparse.Namespace, run: Path) -> dict[str, Any]:
    vocabulary = Vocabulary.read(run / "best" / "vocab.txt")
    texts = {name: text_of(getattr(args, name), args.tokenizer) for name in ("train", "valid", "test")}
    return {
        part: {f"{order}-gram": ngram.compare(texts["train"], texts[part], vocabulary, order=order) for order in ORDERS}
        for part in ("valid", "test")
    }


def text_of(path: Path, tokenizer: str) -> ngram.Text:
    return ngram.Text.of(ngram.sentences_of([path], tokenizer))


def table(found: dict[str, Any]) -> str:
    ours, theirs = found["elmokit"], found["ngrams"]["test"]
    rows = [
        f"| {name} | {row['perplexity']:.1f} | {row['bits_per_character']:.3f} |"
        for name, row in [("tiny-cpu, five minutes", ours["test"]), *theirs.items()]
    ]
    trigram = found["ngrams"]["valid"]["3-gram"]["perplexity"]
    crossing = next((f"{p['minutes']:.1f}" for p in ours["curve"] if p["perplexity"] < trigram), None)
    crossed = f"after {crossing} minutes" if crossing else "not within the time"
    curve = ", ".join(f"{p['minutes']:.1f}: {p['perplexity']:.0f}" for p in ours["curve"])
    result = ours["result"]
    return "\n".join(
        [
            f"{found['theme']}, {found['cpu']}, {found['cores']} cores, {found['date']}, commit {found['commit']}\n",
            "| on the test text | perplexity, geometric mean of both directions | bits a character |",
            "|---|---|---|",
            *rows,
            f"\n{result['words'] / 1e6:.1f} M words ({result['epochs']:.1f} epochs) in {result['seconds']:.0f} s.",
            f"Minutes and perplexity on the first tokens of the validation text: {curve}.",
            f"The trigram, {trigram:.0f} on all of it, is passed {crossed}.\n",
        ]
    )


def parsed(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("train", "valid", "test"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--tokenizer", default="whitespace")
    parser.add_argument("--theme", default="tiny-cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", action="store_true", help="write the result under benchmarks/results")
    args, args.extra = parser.parse_known_args(given)
    return args


def main(given: list[str] | None = None) -> None:
    args = parsed(given)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        found = {
            "theme": args.theme,
            "date": datetime.date.today().isoformat(),
            "cpu": cpu_name(),
            "cores": len(os.sched_getaffinity(0)),
            "commit": commit(),
            "versions": versions(["torch", "numpy"]),
            "texts": {name: getattr(args, name).name for name in ("train", "valid", "test")},
            "elmokit": train(args, run),
            "ngrams": compare_with_ngrams(args, run),
        }
    print(table(found))
    if args.save:
        stem = RESULTS / f"{args.theme}_{found['cpu'].lower().replace(' ', '-')}-{found['cores']}-cores_{found['date']}"
        stem.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n")
        stem.with_suffix(".md").write_text(table(found))


if __name__ == "__main__":
    main()
