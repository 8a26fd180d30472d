"""`elmokit adapt`: a model to another domain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .pretrain import Many, TerminalWatch, assembled, say_result


def adapt(
    *,
    model: Annotated[str, Parameter(name=["--model", "-m"])],
    corpus: Annotated[list[str], Many],
    valid: Annotated[list[str] | None, Many] = None,
    general: Annotated[list[str] | None, Many] = None,
    out: Path,
    options: str | None = None,
    recipe: str = "adapt",
    minutes: float | None = None,
    steps: int | None = None,
    seed: int | None = None,
    tokenizer: str | None = None,
    device: str | None = None,
    set: Annotated[list[str] | None, Parameter(negative="", allow_leading_hyphen=True)] = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> None:
    """Adapt a model to another text. The same line goes on where a stopped run was.

    Parameters
    ----------
    model
        Any model that can be loaded, with a softmax or without.
    corpus
        Files, folders or globs of the new text.
    valid
        Text to choose the best model by; without, the last 1 % of the documents.
    general
        Text of another kind, to measure by what is forgotten.
    out
        The run folder; it gets best/ and bilm-hdf5/.
    options
        The options.json of an HDF5 file, where it does not lie beside it.
    recipe
        Another recipe than adapt.
    minutes
        Wall time, preparation included, over all resumes.
    steps
        Steps instead of minutes.
    seed
        Of order and dropout.
    tokenizer
        By default the model's own.
    device
        auto, cpu, cuda.
    set
        key=value, any setting of the recipe; may be repeated.
    quiet
        Say nothing on standard error but errors.
    """
    from ..pretraining.adapt import adapt as run_adaptation
    from ..pretraining.adapt import with_shape
    from ..pretraining.settings import StartSettings

    start = StartSettings(model=model, options=options)
    given = {
        "corpus.paths": corpus,
        "corpus.valid": valid,
        "start.general": general,
        "schedule.minutes": minutes,
        "schedule.steps": steps,
        "seed": seed,
        "bilm.text.tokenizer": tokenizer,
        "device": device,
    }
    settings = assembled(recipe, given, set or [], complete=lambda data: with_shape(data, start))
    with TerminalWatch(quiet=quiet) as watch:
        watch.say(f"adapt {model} → {out}")
        result = run_adaptation(settings, out, watch=watch)
        if result:
            for text in ("domain", "general"):
                _say_change(watch, result, text)
            say_result(watch, result, out)


def _say_change(watch: TerminalWatch, result: dict, text: str) -> None:  # type: ignore[type-arg]
    before, after = (result[when] and result[when].get(text) for when in ("before", "after"))
    if after:
        then = f"{before['perplexity']:.1f}" if before else "not measured"
        watch.say(
            f"{text}: perplexity {then} before, {after['perplexity']:.1f} after, {after['oov_share']:.1%} unknown"
        )
