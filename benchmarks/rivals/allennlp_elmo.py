"""AllenNLP's own ELMo, unmodified, as the rival to measure against and the oracle to agree with.

AllenNLP 2.10.1 pins libraries that no longer install on Python 3.11 or later, yet its ELMo needs only torch, numpy and
h5py: everything else is imported on the way there and never called. So the package is installed without its
dependencies, and an importer answers for the missing ones with stand-ins. What runs is the real module.
`benchmarks/README.md` has the commands that make the environment.

    python allennlp_elmo.py load OPTIONS WEIGHTS
    python allennlp_elmo.py embed OPTIONS WEIGHTS SENTENCES.json OUT.npz --batch-size 32
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

BENCHMARKS = Path(__file__).resolve().parent.parent
sys.path.append(str(BENCHMARKS))

from measuring import measure_loading  # noqa: E402

# Asked for by AllenNLP's modules at import time, and never by the biLM at run time. A list, not "whatever is missing":
# torch and numpy probe for optional packages too, and must go on hearing that those are not there.
STAND_INS = (
    "_jsonnet",
    "base58",
    "cached_path",
    "checklist",
    "dill",
    "fairscale",
    "huggingface_hub",
    "lmdb",
    "more_itertools",
    "nltk",
    "scipy",
    "sklearn",
    "spacy",
    "tensorboardX",
    "torchvision",
    "tqdm",
    "transformers",
    "wandb",
)


class _AnythingType(type):
    """A class any attribute of which is a stand-in again, so that whole dotted names resolve."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Anything(metaclass=_AnythingType):
    """Passes for a base class, a type annotation, a decorator or a decorator factory."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __class_getitem__(cls, item: object) -> type:
        return cls

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **kwargs: object) -> Any:
        return args[0] if args else self


class StandIn(ModuleType):
    """A module that has every name; importlib makes it a package by its spec."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


def _local_path(url_or_filename: str | Path, **options: object) -> str:
    """What `cached_path` does for a file that is already here; nothing is ever downloaded."""
    return str(url_or_filename)


class StandInImporter(MetaPathFinder, Loader):
    """Answers imports of `names` and their submodules; asked last, so it never hides an installed package."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.names:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "cached_path":
            vars(module)["cached_path"] = _local_path


def install_stand_ins() -> None:
    """Make AllenNLP importable; a second call changes nothing."""
    if not any(isinstance(finder, StandInImporter) for finder in sys.meta_path):
        # Only what is missing: half a real package and half a stand-in would be worse than either.
        sys.meta_path.append(StandInImporter(name for name in STAND_INS if find_spec(name) is None))


def elmo_module() -> ModuleType:
    """The real `allennlp.modules.elmo`: `_ElmoBiLm`, `Elmo`, `batch_to_ids`."""
    install_stand_ins()
    return importlib.import_module("allennlp.modules.elmo")


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
