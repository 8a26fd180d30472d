"""AllenNLP's own ELMo, unmodified, as the rival to measure against and the oracle to agree with.

It is installed without its dependencies, and stand-ins answer for those that its ELMo imports and never calls:
`src/elmokit/measure/allennlp_process.py`, which needs no elmokit. What runs is the real module. `benchmarks/README.md`
has the commands that make the environment.

    python allennlp_elmo.py load OPTIONS WEIGHTS
    python allennlp_elmo.py embed OPTIONS WEIGHTS SENTENCES.json OUT.npz --batch-size 32
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parent.parent
sys.path += [str(BENCHMARKS), str(BENCHMARKS.parent / "src/elmokit/measure")]

from allennlp_process import elmo_module  # noqa: E402
from measuring import measure_loading  # noqa: E402


def load_bilm(options: str | Path, weights: str | Path) -> Any:
    """AllenNLP's biLM in eval mode; constructing it is what reads the weights."""
    return elmo_module()._ElmoBiLm(str(options), str(weights)).eval()


def embed(bilm: Any, batches: Iterable[list[list[str]]], *, fresh_state: bool = False) -> Iterator[list[Any]]:
    """The layers of each sentence, (layers, words, 2P), batch by batch.

    AllenNLP carries the LSTM state from batch to batch, so the order of batches is part of the result;
    `fresh_state` forgets it before each batch.
    """
    import torch

    # Installed only in the rival's environment, where nothing checks types.
    from allennlp.nn.util import remove_sentence_boundaries  # type: ignore[import-not-found]

    for batch in batches:
        if fresh_state:
            bilm._elmo_lstm.reset_states()
        with torch.inference_mode():
            output = bilm(elmo_module().batch_to_ids(batch))
            layers = [remove_sentence_boundaries(layer, output["mask"])[0] for layer in output["activations"]]
        stacked = torch.stack(layers, dim=1)
        yield [rows[:, : len(words)].numpy() for rows, words in zip(stacked, batch, strict=True)]


def read_sentences(path: Path) -> list[list[str]]:
    """A JSON list of sentences: lists of tokens, or strings split at white space."""
    return [_tokens(sentence) for sentence in json.loads(path.read_text(encoding="utf-8"))]


def read_rows(path: Path) -> list[list[list[str]]]:
    """A JSON list of rows of sentences, as batches: the first batch holds the first sentence of each row."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [[_tokens(sentence) for sentence in batch] for batch in zip(*rows, strict=True)]


def _tokens(sentence: str | list[str]) -> list[str]:
    return sentence.split() if isinstance(sentence, str) else sentence


def in_batches(sentences: list[list[str]], size: int) -> list[list[list[str]]]:
    """Consecutive batches in input order; the last one may be smaller."""
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def _embed_to_file(args: argparse.Namespace) -> dict[str, object]:
    import numpy

    batches = read_rows(args.sentences) if args.rows else in_batches(read_sentences(args.sentences), args.batch_size)
    results = list(embed(load_bilm(args.options, args.weights), batches, fresh_state=args.fresh_state))
    arrays: Mapping[str, Any]
    if args.rows:
        arrays = {f"{row}_{batch}": one for batch, many in enumerate(results) for row, one in enumerate(many)}
    else:
        arrays = {str(index): one for index, one in enumerate(one for many in results for one in many)}
    with args.out.open("wb") as out:
        numpy.savez(out, **arrays)
    return {"sentences": len(arrays), "batches": len(batches), "stateful": not args.fresh_state}


def _measure_load(args: argparse.Namespace) -> dict[str, object]:
    return measure_loading(
        elmo_module,
        lambda elmo: elmo._ElmoBiLm(str(args.options), str(args.weights)).eval(),
        packages=("allennlp", "torch", "numpy", "h5py"),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run AllenNLP's own biLM: time its loading, or write its layers.")
    commands = parser.add_subparsers(required=True)
    files = argparse.ArgumentParser(add_help=False)
    files.add_argument("options", type=Path)
    files.add_argument("weights", type=Path)
    load = commands.add_parser("load", parents=[files], help="seconds and peak memory of one construction")
    load.set_defaults(run=_measure_load)
    embed_command = commands.add_parser("embed", parents=[files], help="write (layers, words, 2P) of each sentence")
    embed_command.add_argument("sentences", type=Path)
    embed_command.add_argument("out", type=Path, help="arrays 0, 1, …; with --rows ROW_BATCH")
    embed_command.add_argument("--batch-size", type=int, default=32, help="consecutive sentences (default 32)")
    embed_command.add_argument("--rows", action="store_true", help="the file holds rows; batch k is the rows' k-th")
    embed_command.add_argument("--fresh-state", action="store_true", help="forget the LSTM state before each batch")
    embed_command.set_defaults(run=_embed_to_file)
    return parser


if __name__ == "__main__":
    arguments = _parser().parse_args()
    print(json.dumps(arguments.run(arguments), indent=2))
