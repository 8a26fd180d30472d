"""The recurrence alone: elmokit's, with its clips, against cuDNN's, which has projections and no clips.

    python benchmarks/recurrence.py --shapes small original --batches 128 512 --precision bfloat16
    python benchmarks/recurrence.py --shapes small --batches 2048 --train

Two layers, two directions, the second layer's input added to its output; no character CNN, no softmax. cuDNN runs each
layer and direction as an `nn.LSTM(proj_size=...)` of its own, both directions on a stream each, which is the faster of
its two ways here. Rows are equally long, so that nobody computes padding. Rounds are interleaved. First both are
compared, with the clips off, for a benchmark of wrong numbers says nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmokit import BiLMConfig
from elmokit.kernels.packing import Packing
from elmokit.kernels.recurrence import PackedLayer
from elmokit.model.batch import BiLMState
from elmokit.model.config import LSTMConfig
from elmokit.model.lstm import LSTMStack
from elmokit.pretraining.windows import run_stacks

DIRECTIONS, LAYERS = 2, 2


class Case:
    """Weights and inputs that both sides share: random, as large as a trained model's."""

    def __init__(self, config: BiLMConfig, *, rows: int, steps: int, dtype: torch.dtype, device: torch.device) -> None:
        torch.manual_seed(0)
        self.rows, self.steps, self.dim, self.cells = rows, steps, config.token_dim, config.lstm.dim
        self.dtype, self.device, self.clips = dtype, device, config.lstm
        self.stacks = [LSTMStack(config.lstm, token_dim=self.dim).to(device) for _ in range(DIRECTIONS)]
        self.x = torch.randn(DIRECTIONS, steps, rows, self.dim, device=device).to(dtype)
        self.grad = torch.randn_like(self.x)

    def zero_state(self) -> tuple[Tensor, Tensor]:
        shape = DIRECTIONS, LAYERS, self.rows
        return tuple(torch.zeros(*shape, n, device=self.device) for n in (self.cells, self.dim))  # type: ignore[return-value]


def elmokit_inference(case: Case) -> Callable[[], Tensor]:
    layers = [PackedLayer(list(some), case.dtype) for some in zip(*(s.layers for s in case.stacks), strict=True)]
    packing = Packing(np.full(case.rows, case.steps))
    cell, hidden = case.zero_state()

    def run() -> Tensor:
        x = case.x.flatten(1, 2)
        for i, layer in enumerate(layers):
            pieces, state = [], (cell[:, i], hidden[:, i])
            for piece, part in packing.parts(layer.max_packed):
                output, state = layer(x[:, piece], state, part)
                pieces.append(output)
            output = torch.cat(pieces, dim=1) if len(pieces) > 1 else pieces[0]
            x = output + x if i else output
        return x.view_as(case.x)

    return torch.inference_mode()(run)


def elmokit_training(case: Case) -> Callable[[], Tensor]:
    parameters = [p for stack in case.stacks for p in stack.parameters()]
    state = BiLMState(*case.zero_state())

    def run() -> Tensor:
        x = case.x.detach().requires_grad_()
        with torch.autocast(case.device.type, dtype=case.dtype, enabled=case.dtype != torch.float32):
            output, _ = run_stacks(case.stacks, x, state, begins=None, dropout=0.0)
        torch.autograd.grad(output, [x, *parameters], case.grad)
        return output

    return run


def cudnn(case: Case, *, train: bool) -> Callable[[], Tensor]:
    lstms = [[_as_cudnn(layer, case) for layer in stack.layers] for stack in case.stacks]
    parameters = [p for direction in lstms for lstm in direction for p in lstm.parameters()]
    streams = [torch.cuda.Stream() for _ in lstms] if case.device.type == "cuda" else []

    def one_direction(d: int, x: Tensor) -> Tensor:
        for i, lstm in enumerate(lstms[d]):
            output = lstm(x)[0]
            x = output + x if i else output
        return x

    def both(x: Tensor) -> Tensor:
        if not streams:
            return torch.stack([one_direction(d, x[d]) for d in range(DIRECTIONS)])
        outputs = []
        for d, stream in enumerate(streams):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                outputs.append(one_direction(d, x[d]))
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)
        return torch.stack(outputs)

    def run() -> Tensor:
        if not train:
            return both(case.x)
        x = case.x.detach().requires_grad_()
        output = both(x)
        torch.autograd.grad(output, [x, *parameters], case.grad)
        return output

    return run if train else torch.inference_mode()(run)


def _as_cudnn(layer: Any, case: Case) -> nn.LSTM:
    lstm = nn.LSTM(case.dim, case.cells, proj_size=case.dim).to(case.device, case.dtype)
    with torch.no_grad():
        for name, value in (("weight_ih_l0", layer.weight_ih), ("weight_hh_l0", layer.weight_hh)):
            getattr(lstm, name).copy_(value)
        lstm.weight_hr_l0.copy_(layer.weight_hr)
        lstm.bias_ih_l0.copy_(layer.whole_bias())
        lstm.bias_hh_l0.zero_()
    lstm.flatten_parameters()
    return lstm


def sides(case: Case, *, train: bool) -> dict[str, Callable[[], Tensor]]:
    ours = elmokit_training(case) if train else elmokit_inference(case)
    return {"elmokit": ours, "cudnn": cudnn(case, train=train)}


def largest_difference(config: BiLMConfig, args: argparse.Namespace, device: torch.device) -> float:
    """Of the outputs without clips, of which cuDNN has none, in parts of their spread."""
    plain = BiLMConfig(
        **{**vars(config), "lstm": LSTMConfig(**{**vars(config.lstm), "cell_clip": None, "proj_clip": None})}
    )
    case = Case(plain, rows=32, steps=5, dtype=getattr(torch, args.precision), device=device)
    ours, theirs = (run().detach().float() for run in sides(case, train=args.train).values())
    return float((ours - theirs).abs().max() / (theirs.max() - theirs.min()))


def timed(run: Callable[[], Tensor], device: torch.device, *, at_least: float = 0.05) -> float:
    """Seconds a run, over as many as make a measurable time."""
    n, seconds = 1, 0.0
    while seconds < at_least:
        n *= 2
        synchronize(device)
        started = time.perf_counter()
        for _ in range(n):
            run()
        synchronize(device)
        seconds = time.perf_counter() - started
    return seconds / n


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(name: str, args: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    config = getattr(BiLMConfig, name)()
    difference = largest_difference(config, args, device)
    results = []
    for rows in args.batches:
        case = Case(config, rows=rows, steps=args.steps, dtype=getattr(torch, args.precision), device=device)
        runs = sides(case, train=args.train)
        for run in runs.values():
            run()
        seconds: dict[str, list[float]] = {side: [] for side in runs}
        for _ in range(args.rounds):
            for side, run in runs.items():
                seconds[side].append(timed(run, device))
        words = rows * args.steps
        ratios = [theirs / ours for ours, theirs in zip(*seconds.values(), strict=True)]
        result = {"shape": name, "rows": rows, "difference": difference, "ratio": statistics.median(ratios)}
        result |= {side: words / statistics.median(values) for side, values in seconds.items()}
        result |= {"ratio_low": min(ratios), "ratio_high": max(ratios)}
        results.append(result)
        print(
            f"{name:9} B {rows:5}  elmokit {result['elmokit']:12,.0f}  cudnn {result['cudnn']:12,.0f} words/s  "
            f"ratio {result['ratio']:.2f} ({min(ratios):.2f} … {max(ratios):.2f})  "
            f"step {1e6 * statistics.median(seconds['elmokit']) / args.steps / LAYERS:.1f} µs  diff {difference:.1e}",
            flush=True,
        )
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description="elmokit's recurrence against cuDNN's.")
    parser.add_argument("--shapes", nargs="+", default=["small"], choices=("small", "medium", "original"))
    parser.add_argument("--batches", nargs="+", type=int, default=[32, 128, 512])
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--precision", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.allow_tf32 = False  # float32 against float32
    results = [result for name in args.shapes for result in measure(name, args, device)]
    if args.json:
        print(json.dumps({"settings": vars(args), "torch": torch.__version__, "results": results}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
