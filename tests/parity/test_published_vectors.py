"""The published fixtures, through every format: bilm-tf's and AllenNLP's own vectors come out. Never committed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import elmokit
from elmokit import BiLMConfig, SentenceVectors
from elmokit.weights.formats import FORMATS

from reference.comparing import read_hdf5
from reference.shared import ABSENT, oracles

LARGEST_ERROR = 2e-6
N_ROWS = 3
FIXTURES = {
    "bilm-tf": ("bilm-tf/model", "lm_embeddings_sentences.json"),
    "allennlp": ("allennlp/elmo", "sentences.json"),
}


@pytest.fixture
def published() -> Path:
    folder = oracles()
    if folder is None:
        pytest.skip(ABSENT)
    return folder


def sentences(folder: Path, file: str) -> Iterator[list[str]]:
    """Batch by batch: the first sentence of each row, then the second of each, as they were run."""
    rows = json.loads((folder / file).read_text())
    return (text.split() for batch in zip(*rows, strict=True) for text in batch)


def largest_error(folder: Path, vectors: list[SentenceVectors]) -> float:
    """Against the top layers that were published: for each row a file, in it for each sentence [forward, backward]."""
    errors = []
    for row in range(N_ROWS):
        expected = read_hdf5(folder / f"lm_embeddings_{row}.hdf5")
        for number, found in enumerate(vectors[row::N_ROWS]):
            forward, backward = expected[str(number)]
            errors += [np.abs(found.layer(-1, direction="forward") - forward).max()]
            errors += [np.abs(found.layer(-1, direction="backward") - backward).max()]
    assert len(errors) == 2 * len(vectors) == 60
    return float(max(errors))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", FIXTURES)
def test_published_vectors_are_reproduced(name: str, format: str, published: Path, tmp_path: Path) -> None:
    folder, file = published / FIXTURES[name][0], FIXTURES[name][1]
    pair = (folder / "options.json", folder / "lm_weights.hdf5")
    elmokit.write_weights(elmokit.read_weights(pair), tmp_path, format=format)
    for source in (pair, tmp_path):
        embedder = elmokit.load(source, state="carry", batch_size=N_ROWS, device="cpu")
        assert largest_error(folder, list(embedder.stream(sentences(folder, file)))) <= LARGEST_ERROR


def test_options_are_found_beside_weights_of_another_name(published: Path) -> None:
    folder = published / "bilm-tf" / "model"
    bundle = elmokit.read_weights(folder / "lm_weights.hdf5")
    assert bundle.provenance.options == "options.json"
    assert bundle.config == elmokit.read_weights((folder / "options.json", folder / "lm_weights.hdf5")).config
    assert "no skip connection" in bundle.provenance.notes


@pytest.mark.parametrize("name", ["es/weights.hdf5", "fr/weights.hdf5", "fr/weights_zero.hdf5", "it/weights.hdf5"])
def test_multilingual_models_load_and_say_how_they_were_trained(name: str, published: Path) -> None:
    weights = published / "allennlp" / "elmo_multilingual" / name
    bundle = elmokit.read_weights((weights.with_name("options.json"), weights))
    assert bundle.config == elmokit.read_weights(published / "allennlp" / "elmo" / "lm_weights.hdf5").config
    assert bundle.config.n_layers == BiLMConfig.original().n_layers
    assert bundle.provenance.training["n_negative_samples_batch"] == 8192
    layers = elmokit.load(weights, device="cpu").embed([["hola", "amigos"]])[0].layers
    assert np.isfinite(layers).all()


def test_token_embeddings_are_refused_as_a_model(published: Path) -> None:
    with pytest.raises(elmokit.MissingTensor, match="word vectors alone"):
        elmokit.read_weights(published / "allennlp" / "elmo" / "elmo_token_embeddings.hdf5")
