"""Adapting a model: with its softmax, and from bilm HDF5 alone."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest
import torch

import elmokit
from elmokit.cli import run as command_line
from elmokit.pretraining.run import pretrain
from elmokit.pretraining.settings import StartSettings
from elmokit.pretraining.start import first_weights
from elmokit.text.vocabulary import Vocabulary

from pretraining import tiny_settings, write_text


def write_other_text(path: Path, *, n_sentences: int = 400, seed: int = 0) -> Path:
    """Another grammar with some words of the first: `a NOUN of NOUN was found .`"""
    chance = random.Random(seed)
    nouns = ("cat", "protein", "cell", "gene", "river")
    lines = [f"a {chance.choice(nouns)} of {chance.choice(nouns)} was found ." for _ in range(n_sentences)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    pretrain(tiny_settings(write_text(folder / "text.txt"), steps=60, evaluate_every=30), folder / "run")
    elmokit.write_weights(elmokit.read_weights(folder / "run"), folder / "old", format="bilm-hdf5")
    return folder


@pytest.mark.parametrize("source", ["run", "old"], ids=["with its softmax", "from HDF5 alone"])
def test_adaptation_learns_the_new_text_and_measures_both(trained, source, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_other_text(tmp_path / "new.txt")
    write_other_text(tmp_path / "valid.txt", n_sentences=40, seed=1)
    changes = ["batch.rows=8", "batch.steps=10", "schedule.evaluate_every=30", "objective.softmax=full"]
    changes += ["optimizer.learning_rate=0.01", "bilm.text.split_sentences=false"]
    line = ["adapt", "--model", str(trained / source), "--corpus", "new.txt", "--valid", "valid.txt", "--out", "out"]
    line += ["--general", str(trained / "text.txt"), "--tokenizer", "whitespace", "--steps", "90"]
    line += [part for change in changes for part in ("--set", change)]
    assert command_line(line) == 0
    result = json.loads(Path("out/result.json").read_text())
    before, after = result["before"], result["after"]
    assert after["domain"]["perplexity"] < 0.7 * before["domain"]["perplexity"]
    assert after["domain"]["perplexity"] < 4
    assert {"domain", "general"} == set(before) == set(after)
    assert "perplexity" in capsys.readouterr().err
    for folder in ("out", "out/bilm-hdf5"):
        embedder = elmokit.load(folder)
        assert embedder.embed([["protein"]])[0].layers.shape == (3, 1, 32)
    ours, theirs = elmokit.load_bilm("out"), elmokit.load_bilm("out/bilm-hdf5")
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name])


def test_softmax_rows_follow_their_words_and_new_words_start_at_the_mean(trained):
    bundle = elmokit.read_weights(trained / "run")
    assert bundle.vocabulary is not None
    words = Vocabulary(("<S>", "</S>", "<UNK>", "protein", "cat"))
    softmax = dataclasses.replace(bundle.config.softmax, n_words=5)
    config = dataclasses.replace(bundle.config, softmax=softmax)
    bilm, share = first_weights(config, StartSettings(model=str(trained / "run")), words)
    old, new = bundle.tensors["softmax.weight"], bilm.softmax_weights()[0]
    (cat,) = bundle.vocabulary.ids(["cat"])
    assert torch.equal(new[4], old[cat])
    torch.testing.assert_close(new[3], old.mean(dim=0))
    assert share == StartSettings().frozen_share


def test_while_the_softmax_learns_alone_the_bilm_stays(trained, tmp_path):
    text = write_other_text(tmp_path / "new.txt")
    settings = tiny_settings(text, steps=10, evaluate_every=5)
    start = StartSettings(model=str(trained / "old"), frozen_share_without_softmax=2.0)
    bilm = dataclasses.replace(elmokit.read_weights(trained / "old").config, text=settings.bilm.text)
    corpus = dataclasses.replace(settings.corpus, fit_token_length=False)
    pretrain(dataclasses.replace(settings, start=start, bilm=bilm, corpus=corpus), tmp_path / "run")
    before, after = elmokit.read_weights(trained / "old").tensors, elmokit.read_weights(tmp_path / "run/best").tensors
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name
