"""A text too long for one piece: the forward direction, piece by piece, equals the whole run at once."""

import torch

import elmokit

# random-tiny has random weights: put the path of your own weights here until a trained model is bundled.
bilm = elmokit.load_bilm("random-tiny")
text = ["<S>", *("the river rose and the bank gave way " * 50).split(), "</S>"]

with torch.inference_mode():
    state, pieces = None, []  # None: the text starts from zero
    for first in range(0, len(text), 100):
        piece = bilm.encode([text[first : first + 100]])
        output = bilm(piece, state, marks="none", directions=["forward"])
        state = output.state  # where this piece ended is where the next one goes on
        pieces.append(output.layers)
    whole = bilm(bilm.encode([text]), marks="none", directions=["forward"])

largest = (torch.cat(pieces, dim=2) - whole.layers).abs().max().item()
print(f"{len(text)} tokens in {len(pieces)} pieces; largest difference from the whole: {largest:.1e}")
