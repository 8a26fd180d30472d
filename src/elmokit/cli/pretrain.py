"""`elmokit pretrain`: a folder of text to a trained biLM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..errors import SettingsError

if TYPE_CHECKING:
    from ..embed.language_model import Perplexity
    from ..pretraining.loop import Progress
    from ..pretraining.settings import PretrainSettings

Many = Parameter(consume_multiple=True, negative="")


def pretrain(
    recipe: str,
    /,
    *,
    corpus: Annotated[list[str], Many],
    valid: Annotated[list[str] | None, Many] = None,
    out: Path,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int | None = None,
    tokenizer: Literal["moses", "whitespace", "characters"] | None = None,
    language: str | None = None,
    device: str | None = None,
    set: Annotated[list[str] | None, Parameter(negative="", allow_leading_hyphen=True)] = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> None:
    """Train a biLM. The same line goes on where a stopped run was.

    Parameters
    ----------
    recipe
        A bundled recipe (tiny-cpu, small, medium, original, low-resource) or a TOML file.
    corpus
        Files, folders or globs of text, compressed or not; - is standard input.
    valid
        Text to choose the best model by; without, the last 1 % of the documents.
    out
        The run folder.
    minutes
        Wall time, preparation included, over all resumes.
    steps
        Steps instead of minutes.
    seed
        Of weights, order and dropout.
    tokenizer
        moses for raw text; whitespace for tokenised text of one sentence a line.
    language
        Code such as de, for the tokenizer and the splitting.
    device
        auto, cpu, cuda.
    set
        key=value, any setting of the recipe, such as lstm.dim=512; may be repeated.
    quiet
        Say nothing on standard error but errors.
    """
    settings = assembled(
        recipe,
        {
            "corpus.paths": corpus,
            "corpus.valid": valid,
            "schedule.minutes": minutes,
            "schedule.steps": steps,
            "seed": seed,
            "bilm.text.tokenizer": tokenizer,
            "bilm.text.language": language,
            "device": device,
        },
        set or [],
    )
    from ..pretraining.run import pretrain as run_pretraining

    with TerminalWatch(quiet=quiet) as watch:
        watch.say(f"pretrain {recipe} → {out}")
        result = run_pretraining(settings, out, watch=watch)
        if result:
            say_result(watch, result, out)


def assembled(
    recipe: str,
    given: dict[str, Any],
    changes: list[str],
    *,
    complete: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> PretrainSettings:
    """The recipe, completed, with what the command line says instead."""
    from ..pretraining.settings import PretrainSettings
    from ..recipes import read_recipe
    from ..settings import from_plain, overridden, to_plain

    data = complete(read_recipe(recipe))
    ends = [name for name in ("schedule.minutes", "schedule.steps") if given[name] is not None]
    if len(ends) > 1:
        raise SettingsError("--minutes and --steps are two ends for one run", hint="give one of them")
    if ends:
        for name in ("minutes", "steps", "epochs"):
            data.get("schedule", {}).pop(name, None)
    if given["bilm.text.tokenizer"] in ("whitespace", "characters"):
        given["bilm.text.split_sentences"] = False
    for key, value in given.items():
        if value is not None:
            *tables, name = key.split(".")
            place = data
            for table in tables:
                place = place.setdefault(table, {})
            place[name] = value
    # All keys are there to be changed, not only those that the recipe spells out.
    whole = to_plain(from_plain(PretrainSettings, data, where=recipe))
    return from_plain(PretrainSettings, overridden(whole, changes), where=recipe)


class TerminalWatch:
    """A progress bar on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.bar: Any = None
        self.before = (0, 0.0)

    def __enter__(self) -> TerminalWatch:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def say(self, message: str) -> None:
        if self.quiet:
            return
        if self.bar is not None:
            self.bar.clear()
        print(message, file=sys.stderr, flush=True)

    def stepped(self, progress: Progress, loss: float, left: float) -> None:
        if self.quiet or not sys.stderr.isatty():
            return
        from tqdm import tqdm

        if self.bar is None:
            self.bar = tqdm(initial=progress.words, unit=" words", unit_scale=True, bar_format="{desc}{rate_fmt}")
            self.bar.n = progress.words
        self.bar.update(progress.words - self.bar.n)
        self.bar.set_description_str(f"step {progress.step:,} │ loss {loss:.3f} │ {_clock(left)} left │ ")

    def evaluated(self, progress: Progress, found: Perplexity) -> None:
        both = ", ".join(
            f"{name} {value:.1f}" for name, value in (("fwd", found.forward), ("bwd", found.backward)) if value
        )
        self.say(
            f"step {progress.step:,} │ perplexity {found.perplexity:.1f} ({both}), best {progress.best:.1f} │ "
            f"{progress.words / 1e6:.1f} M words"
        )


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"


def say_result(watch: TerminalWatch, result: dict[str, Any], out: Path) -> None:
    from ..pretraining.curve import as_picture, as_text, points
    from ..runs import Run

    run = Run(out)
    curve = [perplexity for _, perplexity in points(run)]
    if len(curve) > 1:
        watch.say(f"perplexity {curve[0]:.0f} {as_text(curve)} {curve[-1]:.0f}")
    picture = out / "curve.png"
    where = f" · curve: {picture}" if as_picture(run, picture) else " · a picture: pip install 'elmokit[plot]'"
    watch.say(
        f"perplexity {result['perplexity']:.1f} on the validation text, {result['words'] / 1e6:.1f} M words in "
        f"{_clock(result['seconds'])}{where}"
    )
    watch.say(f"next: fill in {out / 'README.md'}; elmokit.load({str(out)!r}).embed([...])")
