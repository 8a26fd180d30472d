"""One word in three sentences: layer 0 reads its letters alone, the layers above it read the sentence."""

import numpy as np

import elmokit

SENTENCES = ["We sat on the bank .", "The bank was closed .", "They fished from the bank ."]

# random-tiny has random weights: what is near what means nothing until a trained model is bundled.
found = elmokit.load("random-tiny").embed([sentence.split() for sentence in SENTENCES])
banks = [sentence.layers[:, sentence.tokens.index("bank")] for sentence in found]

for a, b in ((0, 1), (0, 2), (1, 2)):
    cosines = [x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) for x, y in zip(banks[a], banks[b], strict=True)]
    print(f"sentences {a} and {b}:", "  ".join(f"layer {i} {c:.4f}" for i, c in enumerate(cosines)))
