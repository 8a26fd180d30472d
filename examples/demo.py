"""What `make demo` shows: one word in three sentences, layer by layer.

Until a trained model is bundled this runs on random weights; it shows the machinery, not what ELMo knows.
"""

import time

import numpy as np

import elmokit

SENTENCES = (
    "The boat drifted to the bank of the river.",
    "The bank raised its interest rate.",
    "They fished from the muddy bank.",
)
WORD = "bank"


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def main() -> None:
    started = time.perf_counter()
    embedder = elmokit.load("random-tiny")
    sentences = embedder.embed(SENTENCES)
    seconds = time.perf_counter() - started
    print(f"elmokit {elmokit.__version__} · random-tiny · {embedder.bilm.device} · {seconds:.1f} s")
    print("No trained model is bundled yet: these weights are random, and show the machinery alone.\n")

    print(f'The vectors of "{WORD}" in')
    for number, sentence in enumerate(SENTENCES, start=1):
        print(f"  {number} {sentence}")
    words = [sentence.layers[:, sentence.tokens.index(WORD)] for sentence in sentences]
    print("\n  cosine   layer 0   layer 1   layer 2")
    for a, b in ((0, 1), (0, 2), (1, 2)):
        pairs = zip(words[a], words[b], strict=True)
        print(f"  {a + 1} and {b + 1}  " + "   ".join(f"{cosine(x, y):7.3f}" for x, y in pairs))
    print("  Layer 0 reads the letters alone, so it cannot differ; layers 1 and 2 read the sentence.")

    print("\nNext: elmokit embed FILE -m weights.hdf5 -o vectors.hdf5 · elmokit --help · docs/start.md")


if __name__ == "__main__":
    main()
