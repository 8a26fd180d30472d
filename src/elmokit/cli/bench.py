"""`elmokit bench`: how fast this machine runs a model."""

from __future__ import annotations

import dataclasses
import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from .wording import counted

if TYPE_CHECKING:
    from ..measure.report import BenchReport, Result, Spread


def bench(
    *,
    model: Annotated[str, Parameter(name=["--model", "-m"])],
    options: Path | None = None,
    against: Literal["allennlp", "none"] = "allennlp",
    batch: str = "1,32,128",
    precision: Literal["float32", "float64", "bfloat16"] = "float32",
    device: str = "auto",
    text: Path | None = None,
    rounds: int = 7,
    words: int = 3000,
    allennlp_python: str | None = None,
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> None:
    """Measure words a second on this machine, against AllenNLP's module with the same weights and sentences.

    Parameters
    ----------
    model
        A bundled model, a folder, or a weights file.
    options
        The options.json of an HDF5 file, where it does not lie beside it.
    against
        allennlp, or none.
    batch
        Sentences in a batch; several sizes with commas between.
    precision
        What elmokit computes in; AllenNLP computes in float32.
    device
        auto, cpu, cuda, cuda:1, mps.
    text
        A UTF-8 text file of one sentence a line; by default one that comes with elmokit.
    rounds
        Turns that each side has.
    words
        Batches are taken from the text until they hold so many words.
    allennlp_python
        The Python that has AllenNLP; by default the one that runs elmokit.
    json
        Print one JSON object.
    quiet
        Say nothing on standard error but errors.
    """
    from ..measure.bench import BenchSettings
    from ..measure.bench import bench as run
    from ..measure.text import batch_sizes

    settings = BenchSettings(
        model=(options, model) if options else model,
        against=against,
        batch=batch_sizes(batch),
        precision=precision,
        device=device,
        text=text,
        rounds=rounds,
        words=words,
        allennlp_python=allennlp_python,
    )
    report = run(settings, say=_nothing if quiet else _to_standard_error)
    print(json_module.dumps(dataclasses.asdict(report), indent=2) if json else _readable(report))


def _to_standard_error(line: str) -> None:
    print(line, file=sys.stderr)


def _nothing(line: str) -> None:
    pass


def _readable(report: BenchReport) -> str:
    text, against = report.text, report.against
    lines = [
        f"{report.model} · {report.device} ({report.device_name}) · {report.precision} · torch {report.torch} · "
        f"{counted(report.threads, 'thread')}",
        f"text: {text.source}, {counted(text.sentences, 'sentence')}, {text.mean_length:.1f} words each",
    ]
    if against:
        lines.append(f"against AllenNLP {against['allennlp']} · float32 · torch {against['torch']}")
    reached = ", ".join(f"{name} {flops / 1e9:,.0f} GFLOP/s" for name, flops in report.ceiling.items())
    lines += [f"ceiling, a large product of matrices: {reached}", ""]
    head = ("batch", "side", "words/s", "times AllenNLP", "of ceiling", "difference", "memory")
    rows = [head, *map(_row, report.results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", f"Median (quartiles) of {counted(report.rounds, 'round')}."])


def _row(result: Result) -> tuple[str, ...]:
    held = result.process_bytes if result.device_bytes is None else result.device_bytes
    return (
        str(result.batch),
        result.side,
        _spread(result.words_per_second, ",.0f"),
        "" if result.ratio is None else _spread(result.ratio, ".2f"),
        f"{100 * result.share_of_ceiling:.2g} %",
        "" if result.largest_difference is None else f"{result.largest_difference:.1e}",
        f"{held / 1e9:.2f} GB",
    )


def _spread(values: Spread, form: str) -> str:
    return f"{values.median:{form}} ({values.low:{form}} … {values.high:{form}})"
