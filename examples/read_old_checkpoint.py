"""A published checkpoint is a pair of files: weights.hdf5, and the options.json that belongs to it."""

import tempfile
from pathlib import Path

import elmokit

with tempfile.TemporaryDirectory() as folder:
    # This stands in for files you have: random weights, written as bilm-tf wrote them.
    elmokit.write_weights(elmokit.read_weights("random-tiny"), folder, format="bilm-hdf5")
    options, weights = Path(folder, "options.json"), Path(folder, "weights.hdf5")

    bundle = elmokit.read_weights((options, weights))
    print(f"{bundle.n_parameters():,} parameters, vectors of {bundle.config.dim}")
    print("options:", bundle.provenance.options, "· sha256:", bundle.provenance.sha256[:12])

    # As bilm-tf and AllenNLP ran it: batches of this size, the state carried on from sentence to sentence.
    embedder = elmokit.load((options, weights), state="carry", batch_size=2)
    print([sentence.layers.shape for sentence in embedder.embed([["The", "bank"], ["A", "river", "."]])])
