"""`elmokit inspect`: what a corpus is, before a model is trained on it."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

if TYPE_CHECKING:
    from ..pretraining.inspect import CorpusReport, Suspects


def inspect(
    paths: Annotated[list[str], Parameter(allow_leading_hyphen=True)],
    /,
    *,
    tokenizer: str = "moses",
    language: str | None = None,
    split_sentences: Annotated[bool | None, Parameter(negative="--no-split-sentences")] = None,
    words_per_second: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    workers: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    json_output: Annotated[bool, Parameter(name="--json")] = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> None:
    """Say what a corpus is: its size, its words, its language, and what looks wrong.

    Parameters
    ----------
    paths
        UTF-8 text files, packed or not, folders or globs; - for standard input.
    tokenizer
        moses for raw text, whitespace for tokenised text, characters.
    language
        Code such as de, for the tokenizer and the splitting.
    split_sentences
        Whether a line holds several sentences; by default where moses reads it.
    words_per_second
        How fast you train, for a guess of the time.
    workers
        Processes; 0 is one for each core.
    json_output
        Print JSON.
    quiet
        Show no progress.
    """
    from ..pretraining.inspect import inspect_corpus
    from ..text.config import TextConfig

    split = tokenizer == "moses" if split_sentences is None else split_sentences
    text = TextConfig(tokenizer=tokenizer, language=language, split_sentences=split)
    with _Bar(quiet=quiet) as bar:
        report = inspect_corpus(paths, text, words_per_second=words_per_second, workers=workers, progress=bar.show)
    if json_output:
        print(json.dumps(dataclasses.asdict(report), indent=1, ensure_ascii=False))
    else:
        print("\n".join([_what(report), _vocabulary(report), _tokens(report), _advice(report)]))


class _Bar:
    """A progress bar in per cent, on a terminal only."""

    def __init__(self, *, quiet: bool) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=100, disable=True if quiet else None, bar_format="{percentage:3.0f} % │{bar}│ {desc}")

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def show(self, n_tokens: int, share: float) -> None:
        self._bar.n = round(100 * share)
        self._bar.set_description_str(f"{_amount(n_tokens)} words")


def _what(report: CorpusReport) -> str:
    facts = [f"{_amount(report.n_tokens)} words in {_count(report.n_paragraphs, 'paragraph')}"]
    facts += [_language(report), f"{_percent(report.duplicate_share)} duplicates"]
    facts += [_suspects(report.markup, "mark-up"), _suspects(report.wrong_encoding, "a wrong encoding")]
    return " · ".join(fact for fact in facts if fact)


def _language(report: CorpusReport) -> str:
    if not report.script:
        return "no letters"
    name = report.language or "language unknown"
    mixed = f", {_percent(report.script_share)} of the words" if report.script_share < 0.99 else ""
    return f"{name} ({report.script} script{mixed})"


def _suspects(suspects: Suspects, what: str) -> str:
    if not suspects.n_lines:
        return ""
    looks = "looks" if suspects.n_lines == 1 else "look"
    return f"{_count(suspects.n_lines, 'line')} {looks} like {what} (first: {suspects.first}: {suspects.example})"


def _vocabulary(report: CorpusReport) -> str:
    within = [(n, share) for n, share in report.coverage if n < report.n_types]
    size, share = within[-1] if within else (report.n_types, 1.0)
    needed = ", ".join(f"{_percent(share)} needs {n:,}" for share, n in report.words_to_cover)
    return f"{report.n_types:,} different words · vocabulary of {size:,} covers {_percent(share)}; {needed}"


def _tokens(report: CorpusReport) -> str:
    text = f"{_count(report.n_sentences, 'sentence')} in {_count(report.n_documents, 'document')}"
    cut = f"{_percent(report.over_limit_share)} of the tokens are" if report.over_limit_share else "no token is"
    return f"{text} · {cut} too long for the published 50 characters; {report.fitting_token_length} hold 99.9 %"


def _advice(report: CorpusReport) -> str:
    minutes = "" if report.minutes is None else f", about {_minutes(report.minutes)} for one pass"
    return f"fits: recipe {report.recipe}{minutes}"


def _minutes(minutes: float) -> str:
    return f"{minutes / 60:,.0f} h" if minutes >= 120 else f"{max(1, minutes):,.0f} min"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _amount(n: int) -> str:
    return f"{n / 1e6:,.1f} M" if n >= 1_000_000 else f"{n:,}"


def _percent(share: float) -> str:
    """With one decimal, or as many as show that it is not nothing."""
    if 0 < share < 0.0005:
        return f"{100 * share:.1g} %"
    return f"{100 * share:.1f} %".replace(".0 %", " %")
