"""The commands as a user runs them: what they print, write and refuse."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest

import elmokit
from elmokit.cli import run

from reference.checkpoints import SHAPES, write_checkpoint

TEXT = 'The river bank flooded.\n\nHe said: "naïve / plan" & left.\nThe river bank flooded.\n'
MODEL = ["--model", "random-tiny"]


class Result(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def elmo(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a command line in an empty folder that holds text.txt."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT, encoding="utf-8")

    def command(*arguments: str | Path) -> Result:
        status = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return command


@pytest.fixture
def expected() -> list[elmokit.SentenceVectors]:
    return elmokit.load("random-tiny").embed(TEXT.splitlines())


def test_embed_to_npz(elmo, expected) -> None:
    assert elmo("embed", "text.txt", "-o", "v.npz", *MODEL).status == 0
    with np.load("v.npz") as archive:
        tokens = json.loads(archive["tokens.json"])
        assert tokens == [list(sentence.tokens) for sentence in expected]
        for i, sentence in enumerate(expected):
            np.testing.assert_array_equal(archive[str(i)], sentence.layers)


def test_embed_to_hdf5_in_the_layout_of_allennlp(elmo, expected) -> None:
    assert elmo("embed", "text.txt", "-o", "v.hdf5", *MODEL).status == 0
    with h5py.File("v.hdf5") as file:
        index = json.loads(file["sentence_to_index"][0])
        assert file["sentence_to_index"].shape == (1,)
        assert index["The river bank flooded."] == "3"  # of equal lines the last, as it always was
        for i, sentence in enumerate(expected):
            np.testing.assert_array_equal(file[str(i)][...], sentence.layers)
            assert file[str(i)].dtype == np.float32


def test_embed_to_json_lines_gives_the_very_numbers_back(elmo, expected) -> None:
    assert elmo("embed", "text.txt", "-o", "v.jsonl", *MODEL).status == 0
    rows = [json.loads(line) for line in Path("v.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXT.splitlines()
    for row, sentence in zip(rows, expected, strict=True):
        layers = np.array(row["layers"], np.float32).reshape(sentence.layers.shape)
        np.testing.assert_array_equal(layers, sentence.layers)


def test_standard_input_to_standard_output(expected) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "elmokit", "embed", "-", "-o", "-", *MODEL], input=TEXT.encode(), capture_output=True
    )
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(expected)
    assert b"settled" in done.stderr and b"tokenizer moses" in done.stderr


def test_without_an_output_a_summary_is_printed(elmo) -> None:
    result = elmo("embed", "text.txt", *MODEL)
    assert "sentence 0: 5 tokens, 3 layers of 32 numbers" in result.out
    assert "4 sentences" in result.err


def test_quiet_says_nothing(elmo) -> None:
    assert elmo("embed", "text.txt", "-o", "v.npz", "--quiet", *MODEL) == (0, "", "")


def test_tokenizer_and_state_can_be_chosen(elmo) -> None:
    assert elmo("embed", "text.txt", "-o", "v.npz", "--tokenizer", "whitespace", "--state", "zero", *MODEL).status == 0
    with np.load("v.npz") as archive:
        assert json.loads(archive["tokens.json"])[0] == ["The", "river", "bank", "flooded."]


def test_an_existing_output_is_kept_unless_forced(elmo) -> None:
    Path("v.npz").write_text("precious")
    refused = elmo("embed", "text.txt", "-o", "v.npz", *MODEL)
    assert refused.status == 2 and "--force" in refused.err
    assert Path("v.npz").read_text() == "precious"
    assert elmo("embed", "text.txt", "-o", "v.npz", "--force", *MODEL).status == 0


def test_text_that_is_not_utf8_is_refused_with_its_place_and_leaves_nothing(elmo) -> None:
    Path("latin.txt").write_bytes(b"fine\nna\xefve\n")
    result = elmo("embed", "latin.txt", "-o", "v.hdf5", *MODEL)
    assert result.status == 2
    assert "latin.txt:2: not UTF-8: byte 0xef at offset 7 of the file (2 of the line)" in result.err
    assert "hint: " in result.err and "Traceback" not in result.err
    assert {path.name for path in Path().iterdir()} == {"text.txt", "latin.txt"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["embed", "absent.txt", *MODEL], "absent.txt: no such file"),
        (["embed", ".", *MODEL], "is a folder"),
        (["embed", "text.txt", "-o", "v.docx", *MODEL], "no format is called '.docx'"),
        (["embed", "text.txt", "-o", "no/such/v.npz", *MODEL], "no such folder"),
        (["embed", "text.txt", "--model", "random-tinny"], "did you mean 'random-tiny'"),
        (["embed", "text.txt", "--tokenizer", "mozes", *MODEL], "moses"),
        (["embed", "text.txt", "--state", "warm", *MODEL], "settled"),
        (["embed", "text.txt", "--batch-tokens", "0", *MODEL], "must be positive"),
        (["embed", "text.txt", "--device", "gpu0", *MODEL], "gpu0"),
        (["embed", "text.txt"], "--model"),
        (["embd"], "embed"),
        (["convert", "random-tiny", "out", "--to", "onnxx"], "native"),
        (["info", "text.txt"], "a text, expected weights"),
    ],
    ids=lambda x: " ".join(x)[:40] if isinstance(x, list) else None,
)
def test_a_wrong_command_line_is_one_error_one_hint_and_status_2(elmo, arguments, said) -> None:
    result = elmo(*arguments)
    assert result.status == 2, result
    assert said in result.err
    assert result.err.count("error: ") == 1 and result.err.count("hint: ") == 1
    assert "Traceback" not in result.err


def test_info_as_json(elmo) -> None:
    facts = json.loads(elmo("info", "random-tiny", "--json").out)
    assert {"family", "config", "parameters", "sha256"} <= set(facts)
    assert facts["parameters"] == elmokit.load_bilm("random-tiny").n_parameters()


def test_info_says_what_of_a_text_the_model_would_not_see(elmo) -> None:
    Path("long.txt").write_text(f"fine {'x' * 100} <S>\n")
    line = ["info", "random-tiny", "--text", "long.txt"]
    assert "text: " in elmo(*line).out
    facts = json.loads(elmo(*line, "--json").out)["text"]
    assert (facts["n_over_limit"], facts["n_sentences"]) == (1, 1)


def test_convert_there_and_back_verified(elmo) -> None:
    assert "equal bit for bit" in elmo("convert", "random-tiny", "native", "--to", "native", "--verify").out
    assert "equal bit for bit" in elmo("convert", "native", "old", "--to", "bilm-hdf5", "--verify").out
    facts = json.loads(elmo("info", "old", "--json").out)
    assert facts["family"] == "bilm-hdf5"
    assert len(facts["sha256"]) == 64
    refused = elmo("convert", "native", "old", "--to", "bilm-hdf5")
    assert refused.status == 2 and "--force" in refused.err


def test_info_reads_options_by_their_path(elmo) -> None:
    elmo("convert", "random-tiny", "old", "--to", "bilm-hdf5")
    Path("old/options.json").rename("clips.json")
    assert json.loads(elmo("info", "old", "--json").out)["options"].startswith("the published defaults")
    assert json.loads(elmo("info", "old", "--options", "clips.json", "--json").out)["options"] == "clips.json"


def test_models_lists_what_is_bundled(elmo) -> None:
    assert "random-tiny" in elmo("models").out
    assert json.loads(elmo("models", "--json").out)["name"] == "random-tiny"


def test_a_bug_of_ours_has_status_1_and_says_so(elmo, monkeypatch) -> None:
    monkeypatch.setattr("elmokit.weights.load.read_weights", lambda *_, **__: 1 / 0)
    result = elmo("info", "random-tiny")
    assert result.status == 1
    assert "a bug in elmokit" in result.err


def test_ctrl_c_has_status_130_and_leaves_no_half_file(elmo, monkeypatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmokit.embed.writers.npz.NpzWriter.write", interrupted)
    assert elmo("embed", "text.txt", "-o", "v.npz", *MODEL).status == 130
    assert {path.name for path in Path().iterdir()} == {"text.txt"}


def test_a_full_disk_is_an_error_with_its_reason(elmo, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elmokit.embed.writers.npz.NpzWriter.write", full)
    result = elmo("embed", "text.txt", "-o", "v.npz", *MODEL)
    assert result.status == 2 and "No space left on device" in result.err
    assert not Path("v.npz").exists()


def test_python_m_elmokit_is_the_same_program() -> None:
    done = subprocess.run([sys.executable, "-m", "elmokit", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == elmokit.__version__


def test_a_reader_that_has_enough_ends_the_command_quietly(elmo, monkeypatch) -> None:
    Path("many.txt").write_text(TEXT * 500, encoding="utf-8")
    command = f"{sys.executable} -m elmokit embed many.txt -o - -q --model random-tiny | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert json.loads(done.stdout)["index"] == 0
    assert done.stderr == ""


def test_standard_input_can_be_a_stream(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b c\n")))
    assert run(["embed", "-", "-o", "-", "-q", *MODEL]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == ["a", "b", "c"]


def python_m_elmokit(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "elmokit", *arguments], stderr=subprocess.PIPE, text=True, timeout=100, **settings
    )


@pytest.mark.parametrize("name", ["x_options.json", "x_vocab.txt"])
def test_convert_overwrites_no_file_that_stands_beside_its_weights(elmo, name: str) -> None:
    """Only the weights themselves were looked at."""
    write_checkpoint(Path("words"), next(case for case in SHAPES if case.id == "words"))
    Path("out").mkdir()
    Path("out", name).write_text("precious")
    arguments = ["convert", "words", "out/x_weights.hdf5", "--to", "bilm-hdf5"]
    result = elmo(*arguments)
    assert result.status == 2 and name in result.err and "--force" in result.err
    assert [path.read_text() for path in Path("out").iterdir()] == ["precious"]
    assert elmo(*arguments, "--force").status == 0


@pytest.mark.parametrize("command", ["embed", "convert"])
def test_a_file_too_large_for_the_disk_ends_cleanly(elmo, command: str) -> None:
    """HDF5 crashed at the end of the process and left its half file."""
    arguments = {
        "embed": ["text.txt", "-o", "out/v.hdf5", *MODEL],
        "convert": ["random-tiny", "out/w.hdf5", "--to", "bilm-hdf5"],
    }
    Path("out").mkdir()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    done = python_m_elmokit(command, *arguments[command], preexec_fn=limit)
    assert done.returncode == 2 and "File too large" in done.stderr and "Traceback" not in done.stderr
    assert list(Path("out").iterdir()) == []


def test_embed_never_overwrites_what_it_reads(elmo) -> None:
    elmo("convert", "random-tiny", "m.hdf5", "--to", "bilm-hdf5")
    before = Path("m.hdf5").read_bytes()
    Path("text.jsonl").write_text(TEXT, encoding="utf-8")
    Path("link.hdf5").symlink_to("m.hdf5")
    for text, target in (("text.txt", "m.hdf5"), ("text.txt", "link.hdf5"), ("text.jsonl", "text.jsonl")):
        result = elmo("embed", text, "-o", target, "--model", "m.hdf5", "--force")
        assert result.status == 2 and "is read by this very command" in result.err
    assert Path("m.hdf5").read_bytes() == before and Path("text.jsonl").read_text(encoding="utf-8") == TEXT


def test_a_file_name_that_is_no_utf8_can_be_converted(elmo) -> None:
    elmo("convert", "random-tiny", "m.hdf5", "--to", "bilm-hdf5")
    strange = Path(os.fsdecode(b"m\xe9.hdf5"))
    Path("m.hdf5").rename(strange)
    assert elmo("convert", strange, "out", "--to", "native").status == 0
    assert "m\\udce9.hdf5" in elmo("info", "out").out


def test_a_terminal_without_unicode_still_shows_what_it_can(elmo) -> None:
    done = python_m_elmokit(
        "embed", "text.txt", *MODEL, stdout=subprocess.PIPE, env=os.environ | {"PYTHONIOENCODING": "ascii:strict"}
    )
    assert done.returncode == 0 and "\\u2026" in done.stdout, done.stderr


@pytest.mark.parametrize(("closed", "said"), [("<&-", "standard input is closed"), (">&-", "output is closed")])
def test_closed_standard_streams_are_named(elmo, closed: str, said: str) -> None:
    command = f"{sys.executable} -m elmokit embed - --model random-tiny {closed}"
    done = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and said in done.stderr


def test_a_pipe_is_a_text_file_too(elmo) -> None:
    done = python_m_elmokit("embed", "/dev/stdin", "-o", "v.jsonl", *MODEL, input="one line\n")
    assert done.returncode == 0 and len(Path("v.jsonl").read_text().splitlines()) == 1, done.stderr


def test_sigterm_has_status_143_and_leaves_no_half_file(elmo) -> None:
    Path("out").mkdir()
    command = [sys.executable, "-m", "elmokit", "embed", "-", "-o", "out/v.hdf5", *MODEL]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for _ in range(600):
            if any(Path("out").iterdir()):
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert list(Path("out").iterdir()) == []
