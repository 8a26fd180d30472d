"""AllenNLP as a side: its process is started, given the same weights and sentences, and told when to run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from ..errors import RunError, SettingsError
from ..model.config import BiLMConfig
from ..weights.bundle import WeightBundle
from ..weights.load import write_weights
from . import allennlp_process
from .sides import Batch, Timing, Vectors

NAME = "allennlp"
_WITHOUT = "or leave it out: --against none"


class Rival:
    """AllenNLP's `_ElmoBiLm` in eval mode and float32; its state is forgotten before each batch."""

    name = NAME
    precision = "float32"
    words_are_kept = False

    def __init__(self, process: subprocess.Popen[str], folder: Path, errors: IO[bytes]) -> None:
        self.process, self.folder, self.errors = process, folder, errors
        self.versions: dict[str, Any] = {}
        self.batches: Sequence[Batch] = ()

    def take(self, batches: Sequence[Batch]) -> None:
        self.batches = batches
        self.ask("take", batches=batches)

    def vectors(self, number: int) -> list[Vectors]:
        file = self.folder / "vectors.npy"
        self.ask("vectors", batch=number, file=str(file))
        layers = np.load(file)
        return [layers[:, row, 1 : len(sentence) + 1] for row, sentence in enumerate(self.batches[number])]

    def run(self, passes: int) -> Timing:
        return Timing(**self.ask("run", passes=passes))

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """One command, and its answer; the process's own last words where there is none."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            raise RunError(
                f"AllenNLP's process gave no answer to '{command}': {self._last_words()}",
                hint=f"give it less with --batch, another interpreter with --allennlp-python, {_WITHOUT}",
            ) from error
        if not isinstance(answer, dict):
            raise RunError(f"AllenNLP's process answered '{command}' with {line.strip():.80}", hint=_WITHOUT)
        return answer

    def _last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").strip().splitlines()
        status = self.process.poll()
        ended = "" if status is None else f" (it ended with status {status})"
        return (lines[-1][:300] if lines else "it said nothing") + ended


@contextmanager
def rival(bundle: WeightBundle, *, python: str | None, device: torch.device) -> Iterator[Rival]:
    """AllenNLP with a model's weights, by an interpreter that has it (by default this one)."""
    check_readable(bundle.config)
    assert bundle.config.characters is not None
    python = sys.executable if python is None else python
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile() as errors:
        folder = Path(name)
        weights, options = write_weights(bundle, folder, format="bilm-hdf5")
        try:
            process = subprocess.Popen(
                [python, allennlp_process.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            raise SettingsError(f"{python}: cannot be run ({error.strerror})", hint=_how_to_install()) from error
        try:
            side = Rival(process, folder, errors)
            side.versions = side.ask(
                "load",
                options=str(options),
                weights=str(weights),
                device=str(device),
                threads=torch.get_num_threads(),
                characters=bundle.config.characters.max_characters_per_token,
            )
            if "missing" in side.versions:
                raise SettingsError(
                    f"{python} cannot import AllenNLP's ELMo: {side.versions['missing']}", hint=_how_to_install()
                )
            yield side
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()  # it holds nothing that would be lost
    process.communicate()


def _how_to_install() -> str:
    here = str(torch.__version__).partition("+")[0]
    return (
        "AllenNLP 2.10.1 installs without its dependencies, in an environment of its own:\n"
        "  python3 -m venv rival\n"
        f"  rival/bin/pip install torch=={here} numpy h5py\n"
        "  rival/bin/pip install --no-deps allennlp==2.10.1\n"
        f"then add --allennlp-python rival/bin/python; {_WITHOUT}"
    )


def check_readable(config: BiLMConfig) -> None:
    """Refuse a model that AllenNLP has no module for, with all the reasons."""
    lstm = config.lstm
    facts = (
        (config.words is not None, "it reads words"),
        (config.characters is None, "it reads no characters"),
        (not config.projection, "its characters are not projected"),
        (not lstm.projection, "its cells are not projected"),
        (not lstm.skip, "it has no skip connection"),
        (lstm.cell_clip is None or lstm.proj_clip is None, "it is not clipped"),
        (len(config.directions) != 2, f"it runs {config.directions[0]} only"),
    )
    reasons = [reason for holds, reason in facts if holds]
    if reasons:
        raise SettingsError(f"AllenNLP cannot run this model: {', '.join(reasons)}", hint="--against none")
