"""What the documents show is what happens: their code runs, their output is the real one, their links lead somewhere.

The blocks of a page run in order, in a folder of their own with a few small files. A `text` block right behind a
`python` or `sh` block is its output: for Python all of it, for a command some of its lines, with numbers masked, for
they are times, sizes and checksums that differ from machine to machine.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import pytest

import elmokit
from elmokit.cli import run as run_elmokit

from pretraining import write_text

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = ("pip install ", "git clone ", "cd ", ".venv/bin/", "python -m venv ")

_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:examples|src|tests|docs|benchmarks)/[\w./-]*\w)`")
_NUMBER = re.compile(r"[0-9a-f]{64}|-?\d[\d,]*\.?\d*")
_DECIMAL = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")

Run = Callable[[list[str]], "Outcome"]


@dataclass(frozen=True)
class Block:
    """One fenced block, and the output that the page shows right behind it."""

    language: str
    code: str
    line: int
    shown: str | None


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    lines: list[str]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    outputs = [b[2] if b[1] == "text" and not text[a.end() : b.start()].strip() else None for a, b in pairwise(found)]
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 2, shown)
        for match, shown in zip_longest(found, outputs)
    ]


def ids(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=ids)
pages_with_code = pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b.language in ("python", "sh") for b in blocks(p))], ids=ids
)


@pytest.fixture(scope="session")
def checkpoint() -> elmokit.WeightBundle:
    return elmokit.read_weights("random-tiny")


@pytest.fixture
def folder(checkpoint: elmokit.WeightBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    elmokit.write_weights(checkpoint, tmp_path / "weights.hdf5", format="bilm-hdf5")
    options = json.loads((tmp_path / "options.json").read_text())
    (tmp_path / "other_options").mkdir()
    (tmp_path / "other_options/options.json").write_text(
        json.dumps({**options, "lstm": {**options["lstm"], "dim": 64}})
    )
    (tmp_path / "notes.txt").write_text("The river bank flooded.\nDr. Smith didn't raise the interest rate.\n")
    (tmp_path / "latin1.txt").write_bytes("River\nCaf\xe9\n".encode("latin1"))
    (tmp_path / "corpus").mkdir()
    write_text(tmp_path / "corpus/a.txt", n_sentences=100)
    write_text(tmp_path / "valid.txt", n_sentences=20, seed=1)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").touch()
    return tmp_path


def _small(arguments: list[str]) -> list[str]:
    """A training command at the size of a test: a few steps of a tiny model."""
    if "--minutes" not in arguments:
        return arguments
    at = arguments.index("--minutes")
    changes = ["batch.rows=8", "batch.steps=10", "schedule.evaluate_every=4", "objective.softmax=full"]
    if arguments[0] == "pretrain":
        changes += ["lstm.dim=32", "token_dim=16"]
    sets = [part for change in changes for part in ("--set", change)]
    return [*arguments[:at], "--steps", "8", *arguments[at + 2 :], *sets]


def in_process(arguments: list[str]) -> Outcome:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = run_elmokit(arguments)
    return Outcome(status, out.getvalue().splitlines())


def in_its_own(arguments: list[str]) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "elmokit", *arguments], capture_output=True, text=True, encoding="utf-8", timeout=120
    )
    return Outcome(done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()])


def run_page(page: Path, run: Run) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        where = f"{ids(page)}:{block.line}"
        if block.language == "python":
            _run_python(block, names, where)
        elif block.language == "sh":
            _run_commands(block, run, where)


def _run_python(block: Block, names: dict[str, Any], where: str) -> None:
    out = io.StringIO()
    # The line numbers of the page, so that a traceback points into it.
    code = compile("\n" * (block.line - 1) + block.code, where, "exec")
    with contextlib.redirect_stdout(out):
        exec(code, names)
    if block.shown is not None:
        found, shown = (_DECIMAL.sub("#", text).split() for text in (out.getvalue(), block.shown))
        assert found == shown, f"{where} printed\n{out.getvalue()}"


def _run_commands(block: Block, run: Run, where: str) -> None:
    commands = [line for line in block.code.splitlines() if line.strip()]
    ours = [line for line in commands if line.startswith("elmokit ")]
    for command in set(commands) - set(ours):
        assert command.startswith(("make ", *NOT_RUN)), f"{where}: nobody knows how to check: {command}"
        if command.startswith("make "):
            assert command.split()[1] in make_targets(), f"{where}: {command}"
    for command in ours:
        outcome = run(_small(shlex.split(command)[1:]))
        fails = block.shown is not None and block.shown.startswith("error:")
        assert outcome.status == (2 if fails else 0), f"{where}: {command}\n" + "\n".join(outcome.lines)
        if block.shown is not None:
            missing = _masked(block.shown.splitlines()) - _masked(outcome.lines)
            assert not missing, f"{where}: {command} did not print {[*missing]}, but\n" + "\n".join(outcome.lines)


def _masked(lines: list[str]) -> Counter[str]:
    return Counter(" ".join(_NUMBER.sub("#", line).split()) for line in lines if line.strip())


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pages_with_code
def test_the_code_of_a_page_runs(page: Path, folder: Path) -> None:
    run_page(page, in_process)


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [p for p in PAGES if any("elmokit " in b.code for b in blocks(p) if b.language == "sh")], ids=ids
)
def test_the_commands_of_a_page_run_as_programs(page: Path, folder: Path) -> None:
    run_page(page, in_its_own)


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = [link for link in _links(page) if not _resolves(link, page)]
    assert not broken


@every_page
def test_files_that_are_named_exist(page: Path) -> None:
    assert not [name for name in _PATH.findall(page.read_text(encoding="utf-8")) if not (ROOT / name).exists()]


def test_every_page_is_in_the_navigation() -> None:
    configured = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    in_docs = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert set(re.findall(r'"([\w/-]+\.md)"', configured)) == in_docs


def test_the_reference_has_every_public_name() -> None:
    reference = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    assert not [name for name in elmokit.__all__ if name != "__version__" and not re.search(rf"\b{name}\b", reference)]


def test_the_readme_starts_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Start\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    commands = [code.splitlines() for language, code in _BLOCK.findall(section[1]) if language == "sh"]
    assert commands == [["make demo"], ["make test"]]


def _links(page: Path) -> Iterator[str]:
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return (link for link in _LINK.findall(text) if not link.startswith(("http://", "https://", "mailto:")))


def _resolves(link: str, page: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path) if path else page
    if not target.exists():
        return False
    return not anchor or anchor in {_anchor(title) for title in re.findall(r"^#+ (.+)$", target.read_text(), re.M)}


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
