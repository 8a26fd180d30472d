"""Texts and token lists to vectors, and the views of them."""

import elmokit

# random-tiny has random weights: put the path of your own weights here until a trained model is bundled.
embedder = elmokit.load("random-tiny")
sentences = embedder.embed(["The river bank flooded.", ["Already", "cut", "into", "tokens", "."]])

for sentence in sentences:
    print(" ".join(sentence.tokens))
    print("  layers, tokens, numbers:", sentence.layers.shape)
    print("  one vector a token, the mean of the layers:", sentence.average().shape)
    print("  the forward half of layer 1:", sentence.layer(1, direction="forward").shape)
    print("  one vector a layer for the whole sentence:", sentence.pooled("mean").shape)
