"""The training loop: steps, a rate that rises and falls, and everything that a run must remember to go on.

What it remembers is little: weights, the optimizer's sums, each row's state, and a `Progress` of plain numbers. Chance
is a function of (seed, step), and the reader's place is three numbers, so nothing else has a state.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..model.batch import BiLMState
from ..model.bilm import BiLM
from ..settings import from_plain, to_plain
from ..weights.tensor_file import save_tensors
from .ahead import ahead
from .batches import Batches, LMBatch, Position
from .objective import Objective
from .parallel import mean, rank, side_by_side, world
from .settings import OptimizerSettings, PretrainSettings
from .softmax_loss import LogUniformSamples

READ_AHEAD = 4
"""Batches that wait for the device."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run stands, in plain numbers."""

    step: int = 0
    position: Position = dataclasses.field(default_factory=Position)
    seconds: float = 0.0
    """Spent over all resumes, preparation included."""
    words: int = 0
    best: float | None = None
    best_step: int = 0
    worse: int = 0
    """Evaluations since the best."""
    rollbacks: int = 0
    unfrozen: bool = False
    """Of a run that adapts a model: whether more than the softmax learns by now."""
    average_loss: float | None = None
    """Running mean, against which a spike is told."""


@dataclass(frozen=True)
class _Read:
    """What a step, or a part of one, needs of the text and of chance."""

    batch: LMBatch
    position: Position
    """Behind it."""
    seed: tuple[int, ...]
    samples: tuple[LogUniformSamples, ...]


class Diverged(Exception):
    """The loss is not a number, or far above what it was."""


class Trainer:
    """The moving parts of a run, and how to take a step."""

    def __init__(
        self,
        objective: Objective,
        batches: Batches,
        settings: PretrainSettings,
        *,
        device: torch.device,
        frozen_share: float = 0.0,
    ) -> None:
        self.objective = objective
        self.module = nn.parallel.DistributedDataParallel(objective) if world() > 1 else objective
        self.settings = settings
        self.device = device
        self.precision = settings.precision if settings.precision != "auto" else fast_precision(device)
        self.frozen_share = frozen_share
        self.optimizer = build_optimizer(objective.bilm, settings, frozen_share=frozen_share)
        self.batches = batches
        self.progress = Progress()
        self.state = self._zero_state()
        self._reader: Generator[_Read] | None = None
        self._unsettled: list[Tensor] = []

    def step(self, share: float) -> None:
        """One update; `share` is how much of the run is over. What came of it, `settle` tells."""
        self.objective.train()
        losses, n_words = [], 0
        for _ in range(self.settings.batch.accumulate):
            read = self._read()
            losses.append(self._gradients(read))
            n_words += read.batch.n_words * world()
        norm = nn.utils.clip_grad_norm_(self.objective.parameters(), self.settings.optimizer.clip_norm)
        rate = learning_rate(self.settings.optimizer, share) * 0.5**self.progress.rollbacks
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"] * (share >= group["frozen_until"])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._unsettled.append(torch.stack([torch.stack(losses).mean(), norm]))
        self.progress = dataclasses.replace(
            self.progress,
            step=self.progress.step + 1,
            position=read.position,
            words=self.progress.words + n_words,
        )

    def settle(self) -> float | None:
        """The loss in nats of the last step, or None if it was told before. A step that went astray raises.

        Asking waits for the device: a GPU is asked now and then, and meanwhile works off what it was given.
        """
        if not self._unsettled:
            return None
        steps = torch.stack(self._unsettled).tolist()
        self._unsettled = []
        for number, (loss, norm) in enumerate(steps, start=self.progress.step - len(steps) + 1):
            self._raise_if_diverged(number, loss, norm)
            usual = self.progress.average_loss
            average = loss if usual is None else 0.99 * usual + 0.01 * loss
            self.progress = dataclasses.replace(self.progress, average_loss=average)
        return loss

    def with_rows(self, rows: int) -> Trainer:
        """A trainer of the same model whose batches are of another size."""
        batch = dataclasses.replace(self.settings.batch, rows=rows)
        settings = dataclasses.replace(self.settings, batch=batch)
        return Trainer(self.objective, self.batches.with_rows(rows), settings, device=self.device)

    def probe(self, n_steps: int) -> float:
        """Words a second, from a few steps that change nothing."""
        read = next(self._reads())
        state = self.state
        for i in range(n_steps + 1):
            if i == 1:  # the first warms caches up
                _synchronize(self.device)
                started = time.perf_counter()
            self._gradients(read)
        self.optimizer.zero_grad(set_to_none=True)
        self.state = state
        _synchronize(self.device)
        return n_steps * read.batch.n_words * world() / (time.perf_counter() - started)

    def gather(self) -> None:
        """Bring every process's rows together: all take part, before the first one saves."""
        parts = (("cell", self.state.cell), ("hidden", self.state.hidden))
        self._all_rows = {name: side_by_side(rows, dim=2).contiguous() for name, rows in parts}

    def save(self, folder: Path) -> None:
        """Everything but the model's shape and words; `gather` comes first."""
        save_tensors(self.objective.bilm.state_dict(), folder / "weights.safetensors")
        save_tensors(self._optimizer_tensors(), folder / "optimizer.safetensors")
        save_tensors(self._all_rows, folder / "rows.safetensors")
        (folder / "progress.json").write_text(json.dumps(to_plain(self.progress), indent=2) + "\n", encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """Go on from a checkpoint."""
        path = folder / "progress.json"
        self.progress = from_plain(Progress, json.loads(path.read_text(encoding="utf-8")), where=str(path))
        self.objective.bilm.load_state_dict(load_file(folder / "weights.safetensors", device=str(self.device)))
        self._load_optimizer(load_file(folder / "optimizer.safetensors", device=str(self.device)))
        rows = load_file(folder / "rows.safetensors", device=str(self.device))
        own = slice(rank() * self.settings.batch.rows, (rank() + 1) * self.settings.batch.rows)
        self.state = BiLMState(rows["cell"][:, :, own].clone(), rows["hidden"][:, :, own].clone())
        self.stop_reading()
        self._unsettled = []

    def stop_reading(self) -> None:
        """End the thread that reads ahead; the next step starts another."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _read(self) -> _Read:
        if self._reader is None:
            self._reader = ahead(self._reads(), READ_AHEAD)
        return next(self._reader)

    def _reads(self) -> Iterator[_Read]:
        """What each part of each step reads, from where the run stands."""
        progress, n_parts = self.progress, self.settings.batch.accumulate
        for i, (batch, position) in enumerate(self.batches(progress.position)):
            seed = (self.settings.seed, progress.rollbacks, progress.step + i // n_parts, i % n_parts)
            on_its_way = batch.pinned() if self.device.type == "cuda" else batch
            yield _Read(on_its_way, position, seed, self.objective.samples(seed))

    def _gradients(self, read: _Read) -> Tensor:
        """Add a batch's gradients, and carry its rows' state on."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bfloat16"):
            losses = self.module(read.batch.to(self.device), self.state, seed=read.seed, samples=read.samples)
        scale = self.settings.optimizer.loss_scale / self.settings.batch.accumulate
        (losses.mean * scale).backward()
        self.state = BiLMState(losses.state.cell.detach().float(), losses.state.hidden.detach().float())
        return mean(losses.mean.detach())

    def _raise_if_diverged(self, step: int, loss: float, norm: float) -> None:
        usual = self.progress.average_loss
        if not math.isfinite(loss) or (usual is not None and loss > max(usual + 3.0, 2 * usual)):
            raise Diverged(f"the loss is {loss:.3g} at step {step}, it was {usual}")
        if not math.isfinite(norm):
            raise Diverged(f"the gradient's norm is {norm} at step {step}")

    def _zero_state(self) -> BiLMState:
        config, rows = self.objective.bilm.config, self.settings.batch.rows
        shape = (len(config.directions), config.lstm.n_layers, rows)
        zeros = torch.zeros(*shape, config.lstm.dim), torch.zeros(*shape, config.token_dim)
        return BiLMState(*(x.to(self.device) for x in zeros))

    def _optimizer_tensors(self) -> dict[str, Tensor]:
        """Sums by parameter name: an optimizer of another order or version reads them all the same."""
        state = self.optimizer.state
        return {
            f"{key}:{name}": value.contiguous()
            for name, parameter in self.objective.bilm.named_parameters()
            for key, value in state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def _load_optimizer(self, tensors: dict[str, Tensor]) -> None:
        parameters = dict(self.objective.bilm.named_parameters())
        for key, value in tensors.items():
            kind, _, name = key.partition(":")
            # Adam counts its steps on the CPU, unless it is fused.
            on_cpu = kind == "step" and not self.optimizer.defaults.get("fused")
            self.optimizer.state[parameters[name]][kind] = value.cpu() if on_cpu else value


def fast_precision(device: torch.device) -> Literal["float32", "bfloat16"]:
    """bfloat16 where it is multiplied in hardware; a processor that only imitates it is slower than with float32."""
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    # PyTorch answers this for x86 alone, and under a private name.
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return "bfloat16" if device.type == "cpu" and supported() else "float32"


def build_optimizer(bilm: BiLM, settings: PretrainSettings, *, frozen_share: float) -> torch.optim.Optimizer:
    """Groups by depth, for a run that adapts a model: the deeper the slower. Weight decay is for matrices alone."""
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, parameter in bilm.named_parameters():
        depth = 0 if settings.start.model is None else _depth(name, bilm.config.lstm.n_layers)
        group = {
            "params": [],
            "factor": settings.start.rate_decay**depth,
            "frozen_until": frozen_share if depth else 0.0,
            "weight_decay": settings.optimizer.weight_decay if parameter.dim() > 1 else 0.0,
        }
        groups.setdefault((depth, parameter.dim() > 1), group)["params"].append(parameter)
    rate = settings.optimizer.learning_rate
    if settings.optimizer.name == "adagrad":
        plain = [{**group, "weight_decay": 0.0} for group in groups.values()]
        return torch.optim.Adagrad(plain, lr=rate, initial_accumulator_value=1.0)
    # Fused, it reads and writes each weight once: on a GPU that is what it costs.
    fused = bilm.device.type == "cuda"
    return torch.optim.AdamW(list(groups.values()), lr=rate, betas=(0.9, settings.optimizer.beta2), fused=fused)


def _depth(name: str, n_layers: int) -> int:
    """0 for the softmax, then the LSTM's layers from the top, then the token layer."""
    part, *rest = name.split(".")
    if part == "softmax":
        return 0
    return n_layers - int(rest[1]) if part.endswith("_lstm") else n_layers + 1


def learning_rate(settings: OptimizerSettings, share: float) -> float:
    """A rise over `warmup` of the run, then half a cosine down to `decay_to` of the highest."""
    share = min(1.0, max(0.0, share))
    if share < settings.warmup:
        return settings.learning_rate * share / settings.warmup
    fallen = (share - settings.warmup) / (1 - settings.warmup)
    low = settings.decay_to
    return settings.learning_rate * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * fallen)))


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
