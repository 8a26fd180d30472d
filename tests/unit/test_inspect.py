"""What is said of a corpus before a model is trained on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from elmokit.cli import run
from elmokit.cli.inspect import inspect
from elmokit.errors import DataError
from elmokit.pretraining.inspect import DuplicateLines, inspect_corpus, recommended_recipe
from elmokit.pretraining.languages import language, script
from elmokit.pretraining.line_checks import markup, wrong_encoding
from elmokit.text.config import TextConfig

WORDS = TextConfig(tokenizer="whitespace")
TEXT = """The cat sat on the mat .
The cat sat on the mat .

[[Category:Cats]]
It was grÃ¼n and the end of it .
<p> that was not all of it </p>
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT, encoding="utf-8")


def test_the_whole_report() -> None:
    report = inspect_corpus(["a.txt"], WORDS, words_per_second=0.1)
    assert (report.n_tokens, report.n_types, report.n_sentences) == (32, 20, 5)
    assert (report.n_files, report.n_paragraphs, report.n_documents) == (1, 5, 2)
    assert report.duplicate_share == 0.2
    assert (report.markup.n_lines, report.markup.first, report.markup.example) == (2, "a.txt:4", "[[")
    assert (report.wrong_encoding.n_lines, report.wrong_encoding.first) == (1, "a.txt:5")
    assert (report.script, report.script_share, report.language) == ("Latin", 1.0, "English")
    assert report.coverage[0] == (10_000, 1.0)
    assert report.recipe == "tiny-cpu"
    assert report.minutes == pytest.approx(32 / 6)


def test_how_many_words_cover_how_much() -> None:
    Path("a.txt").write_text("a " * 95 + "b " * 3 + "c d")
    report = inspect_corpus(["a.txt"], WORDS)
    assert report.words_to_cover == ((0.95, 1), (0.98, 2), (0.99, 3))
    assert report.minutes is None


def test_tokens_that_are_too_long() -> None:
    Path("a.txt").write_text("a " * 998 + "x" * 48 + " " + "y" * 49)
    report = inspect_corpus(["a.txt"], WORDS)
    assert report.over_limit_share == 0.001
    assert report.fitting_token_length == 50


def test_a_document_may_begin_in_a_later_block(monkeypatch: pytest.MonkeyPatch) -> None:
    from functools import partial

    from elmokit.pretraining import corpus
    from elmokit.pretraining import inspect as module

    Path("a.txt").write_text("\n" * 20 + "aaaa\n" * 5 + "\n" * 20 + "bbbb\n\n")
    monkeypatch.setattr(module, "blocks", partial(corpus.blocks, size=8))
    assert inspect_corpus(["a.txt"], WORDS, workers=2).n_documents == 2


def test_an_empty_corpus() -> None:
    Path("a.txt").write_text("\n")
    with pytest.raises(DataError, match=r"empty: no word in a\.txt"):
        inspect_corpus(["a.txt"], WORDS)


def test_duplicates_are_estimated_well_in_bounded_memory() -> None:
    hashes = np.random.default_rng(0).integers(0, 1 << 63, 40_000, dtype=np.uint64)
    exact, sampled = DuplicateLines(), DuplicateLines(most=5_000)
    for lines in (hashes, hashes[:10_000]):
        exact.add(lines)
        sampled.add(lines)
    assert exact.share == 0.2
    assert sampled.share == pytest.approx(0.2, abs=0.02)
    assert len(sampled._seen) <= 5_000


@pytest.mark.parametrize(
    "line",
    [
        "<br/> so",
        'See <a href="x">it</a>',
        "a&nbsp;b",
        "it &apos;s",
        "[[File:x.png]]",
        "{{cite}}",
        "'''Bold''' is",
        "== History ==",
        "{| class=x",
        "|-",
        r"so \textbf{x}",
        "$$x$$",
        "https://example.org/a?b=c",
        "www.example.org",
        "```python",
    ],
)
def test_left_over_mark_up(line: str) -> None:
    assert markup(line)


@pytest.mark.parametrize(
    "line",
    [
        "a <unk> of <s> and </s>",
        " = = History = = ",
        "AT&T; R&D is a < b > c",
        "the range [1, 2] costs $5",
        "He said 'no', \"yes\" and ''maybe''.",
        "Look at www.example.org for more",
        "if x == 1",
    ],
)
def test_running_text_is_not_mark_up(line: str) -> None:
    assert not markup(line)


@pytest.mark.parametrize("text", ["grün", "it’s", "“so”", "naïve", "Ärger", "привет"])
def test_text_that_was_decoded_wrongly_is_seen(text: str) -> None:
    assert wrong_encoding(text.encode().decode("latin-1"))
    assert wrong_encoding("a \ufffd b")
    assert not wrong_encoding(text)


@pytest.mark.parametrize("line", ["SÃO PAULO", "Âge", "plain", "Ñandú ÐÑ", "â la carte"])
def test_rare_letters_are_no_wrong_encoding(line: str) -> None:
    assert not wrong_encoding(line)


SAMPLES = {
    "English": "the house of the old man was on the hill and it had a garden with trees",
    "German": "das Haus des alten Mannes war auf dem Hügel und es hatte einen Garten mit Bäumen für die Kinder",
    "French": "la maison du vieil homme est sur la colline et il y a un jardin avec des arbres pour les enfants",
    "Spanish": "la casa del viejo está en la colina y tiene un jardín con los árboles para el niño que no lo vio",
    "Dutch": "het huis van de oude man was op de heuvel en er was een tuin met bomen voor het kind",
    "Finnish": "talo on mäellä ja se oli vanha mutta hän ei ole siellä kuin joka vuonna",
    "Russian": "дом старика был на холме и он не был там но это было как сад с деревьями для детей",
    "Greek": "το σπίτι του γέρου ήταν στο λόφο",
    "Korean": "노인의 집은 언덕 위에 있었다",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_plain_language_is_named(name: str) -> None:
    assert language([(word, 1) for word in SAMPLES[name].split()]) == name


@pytest.mark.parametrize(
    "text", ["Anna Berlin Oslo Paris Peter", "huset på bakken er gammelt og det er en hage", "1 2 3", "MKV AGT", ""]
)
def test_what_is_not_plain_is_unknown(text: str) -> None:
    assert language([(word, 1) for word in text.split()]) is None


def test_scripts() -> None:
    assert script([("дом", 3), ("house", 1)]) == ("Cyrillic", 0.75)
    assert script([("漢字", 1)]) == ("Han", 1.0)
    assert script([("किताब", 1)]) == ("Devanagari", 1.0)
    assert script([("...", 1)]) == ("", 0.0)


def test_recipes_by_amount_of_text() -> None:
    amounts = (1_000, 5_000_000, 250_000_000, 900_000_000)
    assert [recommended_recipe(n) for n in amounts] == ["tiny-cpu", "small", "medium", "original"]


def test_the_command_prints_what_a_person_wants_to_know(capsys: pytest.CaptureFixture[str]) -> None:
    inspect(["a.txt"], tokenizer="whitespace", words_per_second=0.001, quiet=True)
    printed = capsys.readouterr()
    assert printed.out == (
        "32 words in 5 paragraphs · English (Latin script) · 20 % duplicates · "
        "2 lines look like mark-up (first: a.txt:4: [[) · "
        "1 line looks like a wrong encoding (first: a.txt:5: Ã¼)\n"
        "20 different words · vocabulary of 20 covers 100 %; 95 % needs 19, 98 % needs 20, 99 % needs 20\n"
        "5 sentences in 2 documents · no token is too long for the published 50 characters; 19 hold 99.9 %\n"
        "fits: recipe tiny-cpu, about 9 h for one pass\n"
    )
    assert printed.err == ""


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    inspect(["a.txt"], json_output=True, quiet=True)
    report = json.loads(capsys.readouterr().out)
    assert report["markup"]["first"] == "a.txt:4"
    assert report["n_documents"] == 2


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "a.txt", "a.txt", "--tokenizer", "characters", "--language", "en"]) == 0
    assert capsys.readouterr().out.startswith("101 words in 5 paragraphs")
    assert run(["inspect", "a.txt", "--no-split-sentences", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_sentences"] == 5
    assert run(["inspect", "a.txt", "--workers", "-1"]) == 2
    assert "workers" in capsys.readouterr().err
    assert run(["inspect", "missing"]) == 2
    assert "missing: no such file or folder" in capsys.readouterr().err
    assert run(["inspect", "a.txt", "--tokenizer", "mosse"]) == 2
    assert "did you mean 'moses'?" in capsys.readouterr().err
