"""Measuring: what is counted is right, sides do the same work in turns, and a rival that cannot run is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import elmokit
from elmokit import BiLMConfig, DataError, RunError, SettingsError
from elmokit.cli import run as run_command
from elmokit.embed.embedder import Embedder
from elmokit.measure import bench as bench_module
from elmokit.measure import work
from elmokit.measure.bench import BenchSettings, bench, interleaved, largest_differences
from elmokit.measure.report import Spread, TextFacts, Turn, ratios, share
from elmokit.measure.rival import check_readable, rival
from elmokit.measure.sides import EmbedderSide, ModuleSide, Timing
from elmokit.measure.text import BUNDLED, batch_sizes, count_words, read_sentences, whole_batches
from elmokit.measure.work import ceiling, lstm_multiply_adds, multiply_adds, token_layer_multiply_adds
from elmokit.model.config import CharCNNConfig, LSTMConfig, WordsConfig
from elmokit.text.tokens import tokenizer

SENTENCES = [("The", "river", "bank", "flooded", "."), ("Oh", "!"), ("The", "bank", "raised", "its", "rate", ".")]
MOSES = tokenizer("moses", None)

FAKE = {
    "allennlp/__init__.py": "",
    "allennlp/modules/__init__.py": "",
    "allennlp/data/__init__.py": "",
    "allennlp/data/token_indexers/__init__.py": "",
    "allennlp/data/token_indexers/elmo_indexer.py": """
def _make_bos_eos(character, padding, begin, end, length):
    return [begin, character, end] + [padding] * (length - 3)

class ELMoCharacterMapper:
    max_word_length = 50
    beginning_of_sentence_character, end_of_sentence_character = 256, 257
    beginning_of_word_character, end_of_word_character, padding_character = 258, 259, 260
""",
    # Stateful, as the real one: forgetting the state before each batch is what the program must do.
    "allennlp/modules/elmo.py": """
import torch, elmokit
from elmokit.model.batch import encode
from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper

print("what a library prints is no answer")

def batch_to_ids(batch):
    return encode(batch, max_characters_per_token=ELMoCharacterMapper.max_word_length, vocabulary=None).ids

class Lstm:
    state = None
    def reset_states(self):
        self.state = None

class _ElmoBiLm(torch.nn.Module):
    def __init__(self, options, weights):
        super().__init__()
        self.bilm, self._elmo_lstm = elmokit.load_bilm((options, weights)), Lstm()

    def forward(self, ids):
        output = self.bilm(ids, self._elmo_lstm.state, marks="keep")
        self._elmo_lstm.state = output.state
        return {"activations": list(output.layers), "mask": output.mask}
""",
    "allennlp-2.10.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: allennlp\nVersion: 2.10.1\n",
}


@pytest.fixture
def fake_allennlp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this interpreter's children import AllenNLP from."""
    folder = tmp_path / "site"
    for name, content in FAKE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time is spent on being exact."""
    monkeypatch.setattr(bench_module, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(bench_module, "ceiling", lambda device, dtype: 1e12)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(sentence) + "\n" for sentence in SENTENCES))
    return path


def program(tmp_path: Path, code: str) -> str:
    """Something that is run as if it were a Python with AllenNLP."""
    path = tmp_path / "python"
    (tmp_path / "program.py").write_text(code)
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "program.py"}"\n')
    path.chmod(0o755)
    return str(path)


class Scripted:
    """A side that takes given times and gives given vectors."""

    precision, words_are_kept = "float32", False

    def __init__(self, name: str, log: list[str], *, seconds: float = 1.0, layers: Sequence[float] = (0.0,)) -> None:
        self.name, self.log, self.seconds, self.layers = name, log, seconds, layers

    def take(self, batches: Sequence[object]) -> None:
        pass

    def vectors(self, number: int) -> list[np.ndarray]:
        return [np.array(self.layers, np.float32).reshape(1, -1, 1)]

    def run(self, passes: int) -> Timing:
        self.log.append(self.name)
        return Timing(seconds=self.seconds * passes, process_bytes=1, device_bytes=None)


# What is counted


def test_quartiles_stand_about_the_middle() -> None:
    assert Spread.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(median=3, low=2, high=4)
    assert Spread.of([7.0]) == Spread(median=7, low=7, high=7)


def test_a_ratio_is_of_one_round_not_of_medians() -> None:
    """A machine that slowed down for a round slowed both sides: 2x in every round is 2x, whatever the medians say."""
    assert ratios([20, 2, 200], [10, 1, 100]) == Spread(median=2, low=2, high=2)
    assert ratios([10, 10, 40], [10, 5, 10]).median == 2


def test_every_pass_of_a_turn_counts() -> None:
    timing = Timing(seconds=2.0, process_bytes=0, device_bytes=None)
    assert Turn(passes=10, timing=timing).words_per_second(30) == 150


def test_a_multiply_add_is_two_operations() -> None:
    assert share(1000, multiply_adds_per_word=5e6, ceiling=1e11) == 0.1


def test_the_original_model_multiplies_as_often_as_was_counted_by_hand() -> None:
    original = BiLMConfig.original()
    assert lstm_multiply_adds(original) == 2 * 2 * (8 * 4096 * 512 + 4096 * 512) == 75_497_472
    convolutions = sum(w * 16 * n * (51 - w) for w, n in original.characters.filters)
    assert token_layer_multiply_adds(original) == convolutions + 4 * 2048**2 + 2048 * 512
    assert round(token_layer_multiply_adds(original) / 102.1e6, 2) == 0.26


def test_work_is_of_tokens_and_marks_and_of_distinct_words() -> None:
    config = BiLMConfig(
        token_dim=2,
        characters=CharCNNConfig(dim=1, filters=((1, 3),), max_characters_per_token=10),
        n_highway=1,
        lstm=LSTMConfig(dim=4, n_layers=1),
        directions=("forward",),
    )
    lstm, word = 8 * 4 * 2 + 4 * 2, 3 * 10 + 2 * 9 + 3 * 2
    assert (lstm_multiply_adds(config), token_layer_multiply_adds(config)) == (lstm, word)
    batches = [[("a", "b", "a")], [("a",), ("c", "a")]]
    # Steps: 5, then 3 and 4. Words: a, b; then a, c; and two marks for each batch.
    assert multiply_adds(config, batches) == 12 * lstm + (4 + 4) * word
    assert multiply_adds(config, batches, words_are_kept=True) == 12 * lstm + (3 + 2) * word


def test_words_and_cells_without_a_projection_are_counted_too() -> None:
    lstm = LSTMConfig(dim=8, projection=False)
    config = BiLMConfig(token_dim=8, characters=None, words=WordsConfig(n_words=9, dim=8), projection=False, lstm=lstm)
    assert token_layer_multiply_adds(config) == 0
    assert lstm_multiply_adds(config) == 2 * 2 * 8 * 8 * 8


def test_the_ceiling_is_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SECONDS", 0.0)
    monkeypatch.setattr(work, "TIMES", 1)
    assert ceiling(torch.device("cpu"), torch.float32) > 1e8


# What is run


def test_the_bundled_text_has_sentences_as_in_books() -> None:
    sentences = read_sentences(None, MOSES)
    facts = TextFacts.of("bundled", [*map(len, sentences)])
    assert facts.sentences == len(set(sentences)) >= 512
    assert 20 <= facts.mean_length <= 25
    assert min(map(len, sentences)) <= 2 and 60 <= facts.longest <= 100
    assert facts.words == count_words([sentences])


def test_batches_are_whole_and_in_order() -> None:
    assert whole_batches(SENTENCES, 2, max_words=1000) == [SENTENCES[:2]]
    assert whole_batches(SENTENCES, 1, max_words=6) == [SENTENCES[:1], SENTENCES[1:2]]
    assert whole_batches(SENTENCES, 3, max_words=1) == [SENTENCES]


def test_a_batch_larger_than_the_text_is_refused() -> None:
    with pytest.raises(SettingsError, match="the text has 3 sentences, fewer than one batch of 4"):
        whole_batches(SENTENCES, 4, max_words=1)


def test_a_text_without_a_sentence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n  \n")
    with pytest.raises(DataError, match=r"empty\.txt: holds no sentence"):
        read_sentences(tmp_path / "empty.txt", MOSES)
    with pytest.raises(DataError, match=r"gone\.txt: cannot be read \(No such file"):
        read_sentences(tmp_path / "gone.txt", MOSES)


def test_batch_sizes_are_positive_whole_numbers() -> None:
    assert batch_sizes("1, 32,128,1") == (1, 32, 128)
    for wrong in ("", "0", "1,,2", "-1", "ten", "1.5"):
        with pytest.raises(SettingsError, match="--batch is positive whole numbers, found"):
            batch_sizes(wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": ()}, "batch sizes must be positive"),
        ({"batch": (0,)}, "batch sizes must be positive"),
        ({"rounds": 0}, "rounds must be positive, found 0"),
        ({"words": 0}, "words must be positive, found 0"),
        ({"against": "bert"}, "against is one of allennlp, none, found 'bert'"),
    ],
)
def test_settings_that_measure_nothing_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        BenchSettings(model="random-tiny", **change)  # type: ignore[arg-type]


# Who is measured


def test_sides_take_turns_and_who_goes_first_rotates() -> None:
    log: list[str] = []
    turns = interleaved([Scripted(name, log, seconds=0.15) for name in "abc"], 4, say=lambda line: None)
    assert "".join(log) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert [turn.passes for turn in turns["a"]] == [2] * 4  # 0.2 s at least


def test_a_difference_is_relative_to_the_spread_of_the_rivals_layer() -> None:
    other = Scripted("other", [], layers=[-1.0, 3.0])
    ours = [Scripted("same", [], layers=[-1.0, 3.0]), Scripted("off", [], layers=[-1.0, 3.5])]
    assert largest_differences(ours, other, n_batches=2) == {"same": 0.0, "off": 0.125}


def test_what_is_not_a_number_does_not_pass_for_agreement() -> None:
    found = largest_differences(
        [Scripted("nan", [], layers=[np.nan, 1.0])], Scripted("other", [], layers=[0.0, 1.0]), n_batches=1
    )
    assert np.isnan(found["nan"])


@pytest.fixture
def embedder(tiny: elmokit.BiLM) -> Embedder:
    return Embedder(tiny, state="zero", device="cpu")


def test_both_our_sides_give_the_vectors_of_an_embedder(embedder: Embedder) -> None:
    expected = embedder.embed(SENTENCES)
    for kind in (ModuleSide, EmbedderSide):
        side = kind(embedder, precision="float32")
        side.take([SENTENCES[:1], SENTENCES[1:]])
        for sentence, vectors in zip(expected, side.vectors(0) + side.vectors(1), strict=True):
            np.testing.assert_allclose(vectors, sentence.layers, atol=1e-6)


def test_an_embedder_reads_the_text_for_the_first_time_in_each_pass(embedder: Embedder) -> None:
    """Its table of words would know them all from the pass before, and the text would seem to be read faster."""
    side = EmbedderSide(embedder, precision="float32")
    side.take([SENTENCES[:1], SENTENCES[1:]])
    side.run(3)
    asked, known = side.embedder.word_stats.asked, side.embedder.word_stats.known
    assert (asked, known) == (1 + 5 + 8, 3)  # "The", "bank" and "." are in the first batch and in the second


# The rival


def test_a_whole_run_against_a_rival(fake_allennlp: Path, quick: None, text: Path) -> None:
    said: list[str] = []
    settings = BenchSettings(model="random-tiny", device="cpu", batch=(1, 2), rounds=1, text=text)
    report = bench(settings, say=said.append)
    assert [(row.side, row.batch) for row in report.results] == [
        (side, batch) for batch in (1, 2) for side in ("elmokit", "embedder", "allennlp")
    ]
    for row in report.results:
        assert row.words_per_second.median > 0 and row.share_of_ceiling > 0 and row.process_bytes > 0
        assert row.words == (13 if row.batch == 1 else 7)
        is_rival = row.side == "allennlp"
        assert (row.ratio is None) == (row.largest_difference is None) == is_rival
        # Three batches of one row: a state that was carried along would show.
        assert is_rival or row.largest_difference < 1e-5
    assert report.against is not None and report.against["allennlp"] == "2.10.1"
    assert report.text == TextFacts(source="text.txt", sentences=3, words=13, mean_length=13 / 3, longest=6)
    assert said[0] == "starting AllenNLP" and said[-1] == "batch 2: round 1 of 1"


def test_the_command_prints_one_json_object(
    quick: None, text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bench", "--model", "random-tiny", "--against", "none", "--batch", "1,3", "--rounds", "2"]
    assert run_command([*command, "--device", "cpu", "--text", str(text), "--json", "--quiet"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.err == ""
    assert {"model", "device_name", "precision", "torch", "threads", "text", "ceiling", "against"} <= set(found)
    assert found["against"] is None and found["ceiling"] == {"float32": 1e12, "bfloat16": 1e12}
    assert len(found["results"]) == 4
    assert set(found["results"][0]["words_per_second"]) == {"median", "low", "high"}
    assert found["results"][0]["ratio"] is found["results"][0]["largest_difference"] is None


def test_the_command_prints_a_table(quick: None, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "-m", "random-tiny", "--against", "none", "--batch", "3", "--rounds", "1", "--text", str(text)]
    assert run_command([*command, "--device", "cpu", "--precision", "bfloat16"]) == 0
    captured = capsys.readouterr()
    assert "text: text.txt, 3 sentences, 4.3 words each" in captured.out
    assert "batch  side" in captured.out and "elmokit" in captured.out
    assert "batch 3: round 1 of 1" in captured.err


def started(python: str | None) -> None:
    with rival(elmokit.read_weights("random-tiny"), python=python, device=torch.device("cpu")):
        pass


def test_a_python_without_allennlp_is_told_how_to_get_it(fake_allennlp: Path) -> None:
    (fake_allennlp / "allennlp/__init__.py").write_text("raise ImportError(\"No module named 'allennlp'\")")
    with pytest.raises(SettingsError, match="cannot import AllenNLP's ELMo: No module named 'allennlp'") as caught:
        started(None)
    for part in ("pip install --no-deps allennlp==2.10.1", "torch==", "--allennlp-python", "--against none"):
        assert part in caught.value.hint


def test_a_python_that_is_not_there_is_told_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone: cannot be run \(No such file") as caught:
        started(str(tmp_path / "gone"))
    assert "--no-deps allennlp==2.10.1" in caught.value.hint


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('out of memory')", "gave no answer to 'load': RuntimeError: out of memory"),
        ("pass", "gave no answer to 'load': it said nothing"),
        ("print('hello', flush=True); input()", "gave no answer to 'load'"),
        ("print('[1]', flush=True); input()", r"answered 'load' with \[1\]"),
    ],
)
def test_a_process_that_does_not_answer_is_an_error_with_its_last_words(
    code: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=message) as caught:
        started(program(tmp_path, code))
    assert "--against none" in caught.value.hint


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            lambda: BiLMConfig(characters=None, words=WordsConfig(n_words=9, dim=512)),
            "it reads words, it",
        ),
        (lambda: BiLMConfig(token_dim=2048, projection=False), "its characters are not projected"),
        (lambda: BiLMConfig(lstm=LSTMConfig(dim=512, projection=False)), "its cells are not projected"),
        (lambda: BiLMConfig(lstm=LSTMConfig(skip=False)), "it has no skip connection"),
        (lambda: BiLMConfig(lstm=LSTMConfig(cell_clip=None)), "it is not clipped"),
        (lambda: BiLMConfig(directions=("backward",)), "it runs backward only"),
    ],
)
def test_a_model_that_allennlp_has_no_module_for_is_refused(config: Callable[[], BiLMConfig], reason: str) -> None:
    with pytest.raises(SettingsError, match=f"AllenNLP cannot run this model: {reason}") as caught:
        check_readable(config())
    assert caught.value.hint == "--against none"


def test_the_bundled_text_lies_in_the_package() -> None:
    assert BUNDLED.is_relative_to(Path(elmokit.__file__).parent)
