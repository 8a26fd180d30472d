"""AllenNLP's own biLM, unmodified, as a program that does what it is told on standard input.

It is run by an interpreter that has AllenNLP and need not have elmokit: nothing of this package is imported here. One
JSON object a line:

    {"do": "load", "options": …, "weights": …, "device": …, "threads": …, "characters": …}   -> versions
    {"do": "take", "batches": [[["a", "sentence"], …], …]}                                   -> {}
    {"do": "vectors", "batch": 0, "file": "x.npy"}             -> {}, (layer, row, step, dim), marks among the steps
    {"do": "run", "passes": 3}                                 -> what `timed` gives

AllenNLP 2.10.1 pins libraries that no longer install on Python 3.11 or later, yet its ELMo needs only torch, numpy and
h5py: everything else is imported on the way there and never called. So the package is installed without its
dependencies, and an importer answers for the missing ones with stand-ins. What runs is the real module.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

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


def timed(
    run: Callable[[], object], *, passes: int, device: str, prepare: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Seconds of so many passes, and the most memory that was held meanwhile: the clock of every side.

    It stands still while a pass is prepared.
    """
    import torch

    def now() -> float:
        if on_gpu:
            torch.cuda.synchronize(device)
        return time.perf_counter()

    on_gpu, seconds = device.startswith("cuda"), 0.0
    with contextlib.suppress(OSError):  # not on Linux: the peak is then the whole process's
        Path("/proc/self/clear_refs").write_text("5")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(passes):
        prepare()
        started = now()
        run()
        seconds += now() - started
    return {
        "seconds": seconds,
        "process_bytes": _peak_of_process(),
        "device_bytes": torch.cuda.max_memory_allocated(device) if on_gpu else None,
    }


def _peak_of_process() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        lines = []
    # Not getrusage where it can be helped: there a child begins with its parent's peak.
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows has no such count
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Program:
    """The commands."""

    def load(self, *, options: str, weights: str, device: str, threads: int, characters: int) -> dict[str, Any]:
        try:
            elmo = elmo_module()
            import torch
        except ImportError as error:
            return {"missing": str(error)}
        torch.set_num_threads(threads)
        _set_row_length(characters)
        self.elmo, self.device = elmo, device
        self.bilm = elmo._ElmoBiLm(options, weights).eval().to(device)
        return {
            "allennlp": version("allennlp"),
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
        }

    def take(self, *, batches: list[list[list[str]]]) -> dict[str, Any]:
        self.ids = [self.elmo.batch_to_ids(batch) for batch in batches]
        return {}

    def vectors(self, *, batch: int, file: str) -> dict[str, Any]:
        import numpy
        import torch

        # On a GPU convolutions use tf32 unless told otherwise. Its users have that, so it is left on for the clock;
        # what is compared is float32.
        with torch.backends.cudnn.flags(allow_tf32=False):
            layers = self._run(self.ids[batch])
        numpy.save(file, torch.stack(layers).cpu().numpy())
        return {}

    def run(self, *, passes: int) -> dict[str, Any]:
        return timed(self._pass, passes=passes, device=self.device)

    def _pass(self) -> None:
        for ids in self.ids:
            self._run(ids)

    def _run(self, ids: Any) -> Any:
        import torch

        with torch.inference_mode():
            self.bilm._elmo_lstm.reset_states()
            return self.bilm(ids.to(self.device))["activations"]


def _set_row_length(n: int) -> None:
    """AllenNLP's rows are of 50 characters, as all published models'; another model's are set by the same constants."""
    indexer = importlib.import_module("allennlp.data.token_indexers.elmo_indexer")
    mapper = indexer.ELMoCharacterMapper
    if mapper.max_word_length == n:
        return
    mapper.max_word_length = n
    word = mapper.padding_character, mapper.beginning_of_word_character, mapper.end_of_word_character
    for mark in ("beginning_of_sentence", "end_of_sentence"):
        row = indexer._make_bos_eos(getattr(mapper, f"{mark}_character"), *word, n)
        setattr(mapper, f"{mark}_characters", row)


def main() -> None:
    """Answer until standard input ends. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # The folder of this file is no place to import from: its modules have common names.
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != Path(__file__).resolve().parent]
    program = Program()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(program, request.pop("do"))(**request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
