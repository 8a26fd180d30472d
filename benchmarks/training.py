"""A training step, whole: elmokit's against an eager loop in tf32, as one wrote it for ELMo before.

    python benchmarks/training.py --corpus text.txt --recipe small --rows 2048 --softmax-words 793471
    python benchmarks/training.py --corpus text.txt --recipe original --rows 1024 --rival-rows 256

Both sides read the same windows of the same text and take the same loss: sampled softmax, dropout, Adam, clipped
gradients. The eager loop runs the character CNN for each token, as AllenNLP does, and the LSTMs step by step through
PyTorch's autograd (`model/lstm.py`); reading the text is off its clock and on ours. Its words a second hardly depend on
its rows once these fill the GPU, so it may have fewer: its graph of every step takes much memory.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmokit.model.batch import CharacterBatch
from elmokit.model.bilm import BiLM
from elmokit.model.config import SoftmaxConfig
from elmokit.pretraining.batches import Batches, LMBatch, Position
from elmokit.pretraining.loop import Trainer
from elmokit.pretraining.objective import Objective
from elmokit.pretraining.preparation import complete_config
from elmokit.pretraining.settings import PretrainSettings
from elmokit.pretraining.store import TokenStore, build_store
from elmokit.recipes import read_recipe
from elmokit.settings import from_plain


def settings_of(args: argparse.Namespace) -> PretrainSettings:
    settings = from_plain(PretrainSettings, read_recipe(args.recipe), where=args.recipe)
    return dataclasses.replace(
        settings,
        precision=args.precision,
        batch=dataclasses.replace(settings.batch, rows=args.rows, accumulate=1),
        objective=dataclasses.replace(settings.objective, softmax="sampled", n_samples=8192),
        optimizer=dataclasses.replace(settings.optimizer, name=args.optimizer, learning_rate=1e-3),
    )


def build(
    store: TokenStore, settings: PretrainSettings, args: argparse.Namespace, *, rows: int
) -> tuple[BiLM, Batches]:
    config = complete_config(settings, store)
    if args.softmax_words:
        config = dataclasses.replace(config, softmax=SoftmaxConfig(n_words=args.softmax_words))
    torch.manual_seed(0)
    batches = Batches(
        store,
        config,
        rows=rows,
        steps=settings.batch.steps,
        block_tokens=settings.batch.block_tokens,
        seed=0,
    )
    return BiLM(config), batches


class Ours:
    """Steps of `elmokit pretrain`, reading included."""

    def __init__(self, store: TokenStore, settings: PretrainSettings, args: argparse.Namespace) -> None:
        bilm, batches = build(store, settings, args, rows=settings.batch.rows)
        objective = Objective(bilm.to(args.device), settings.objective)
        self.trainer = Trainer(objective, batches, settings, device=args.device)
        self.words = settings.batch.rows * settings.batch.steps

    def steps(self, n: int) -> float | None:
        for _ in range(n):
            self.trainer.step(0.5)
        return self.trainer.settle()


class Eager:
    """The loop that people wrote: PyTorch's modules and autograd, tf32, every token's characters."""

    def __init__(self, store: TokenStore, settings: PretrainSettings, args: argparse.Namespace) -> None:
        self.bilm, batches = build(store, settings, args, rows=args.rival_rows or args.rows)
        self.bilm.to(args.device)
        self.objective = Objective(self.bilm, settings.objective)
        self.dropout = settings.objective.dropout
        kind = torch.optim.Adagrad if args.optimizer == "adagrad" else torch.optim.AdamW
        self.optimizer = kind(self.bilm.parameters(), lr=1e-3)
        read = batches(Position())
        self.batches = [next(read)[0].to(args.device) for _ in range(4)]
        self.words = batches.rows * batches.steps
        self.turn = self._endless()

    def _endless(self) -> Iterator[tuple[int, LMBatch]]:
        number = 0
        while True:
            for batch in self.batches:
                number += 1
                yield number, batch

    def steps(self, n: int) -> float:
        for _ in range(n):
            number, batch = next(self.turn)
            loss = self.loss(batch, number)
            loss.backward()
            nn.utils.clip_grad_norm_(self.bilm.parameters(), 10.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return float(loss.detach())

    def loss(self, batch: LMBatch, number: int) -> Tensor:
        losses = []
        samples = self.objective.samples((0, 0, number, 0))
        for direction, stream, drawn in zip(self.bilm.config.directions, batch.streams, samples, strict=True):
            rows, steps = stream.index.shape
            every = batch.table.characters[stream.index].flatten(0, 1)
            x = self.bilm.token_layer(CharacterBatch(stream.index, every, None)).view(rows, steps, -1)
            x = F.dropout(x, self.dropout)
            stack = getattr(self.bilm, f"{direction}_lstm")
            zeros = x.new_zeros
            shape = len(stack.layers), rows
            layers, _ = stack(x, (zeros(*shape, self.bilm.config.lstm.dim), zeros(*shape, x.shape[2])))
            losses.append(
                sampled(F.dropout(layers[-1], self.dropout).flatten(0, 1), stream.targets.flatten(), drawn, self.bilm)
            )
        return torch.stack(losses).mean()


def sampled(hidden: Tensor, targets: Tensor, samples: Any, bilm: BiLM) -> Tensor:
    """TensorFlow's sampled softmax in plain operations."""
    weight, bias = bilm.softmax_weights()
    drawn = samples.words.to(hidden.device)
    true = (hidden * F.embedding(targets, weight)).sum(1) + bias[targets] - samples.log_expected(targets)
    others = hidden @ F.embedding(drawn, weight).t() + bias[drawn] - samples.log_expected(drawn)
    others = others.masked_fill(targets[:, None] == drawn, -torch.inf)
    return F.cross_entropy(torch.cat([true[:, None], others], dim=1), torch.zeros_like(targets))


def timed(side: Ours | Eager, n: int, device: torch.device) -> float:
    """Words a second."""
    started = time.perf_counter()
    side.steps(n)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return n * side.words / (time.perf_counter() - started)


def measure(args: argparse.Namespace, store: TokenStore) -> dict[str, Any]:
    settings = settings_of(args)
    makers = {"elmokit": Ours} if args.alone else {"elmokit": Ours, "eager": Eager}
    sides = {name: make(store, settings, args) for name, make in makers.items()}
    for side in sides.values():
        side.steps(3)
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(args.rounds):
        for name, side in sides.items():
            n = args.steps if name == "elmokit" else max(1, args.steps // 10)
            found[name].append(timed(side, n, args.device))
    sides["elmokit"].trainer.stop_reading()  # type: ignore[union-attr]
    result: dict[str, Any] = {name: statistics.median(values) for name, values in found.items()}
    if not args.alone:
        ratios = [ours / theirs for ours, theirs in zip(*found.values(), strict=True)]
        result |= {"ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios)}
    if args.device.type == "cuda":
        result["memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="A training step against an eager loop in tf32.")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--recipe", default="small")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--rival-rows", type=int, help="rows of the eager loop's batches (as many)")
    parser.add_argument("--softmax-words", type=int, help="size of the softmax (the text's vocabulary)")
    parser.add_argument("--optimizer", choices=("adamw", "adagrad"), default="adamw")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--steps", type=int, default=50, help="ours in a round; a tenth of it for the eager loop (50)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="measure elmokit alone")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")  # tf32 for the eager loop; ours multiplies bfloat16
    with tempfile.TemporaryDirectory() as folder:
        text = settings_of(args).bilm.text
        store = build_store([str(args.corpus)], Path(folder) / "store", text=text, max_words=100_000, min_count=1)
        result = measure(args, store)
    print(json.dumps(result, indent=2) if args.json else "  ".join(f"{k} {v:,.2f}" for k, v in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
