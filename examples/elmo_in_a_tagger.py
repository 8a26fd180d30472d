"""A small tagger over a frozen biLM: one step of training, and the layers' weights it moved."""

import torch
from torch import nn

import elmokit

torch.manual_seed(1)
# random-tiny has random weights: put the path of your own weights here until a trained model is bundled.
elmo = elmokit.Elmo(elmokit.load_bilm("random-tiny"), dropout=0.1)
encoder = nn.LSTM(elmo.dim, 20, batch_first=True, bidirectional=True)
to_label = nn.Linear(40, 3)

batch = elmo.encode([["Anna", "lives", "in", "Bern"], ["Hello", "!"]])
labels = torch.tensor([[1, 0, 0, 2], [0, 0, -100, -100]])  # -100 is padding

parameters = [p for m in (elmo, encoder, to_label) for p in m.parameters() if p.requires_grad]
optimizer = torch.optim.Adam(parameters, lr=0.01)
for step in range(2):
    encoded, _ = encoder(elmo(batch).mixes[0])
    loss = nn.functional.cross_entropy(to_label(encoded).flatten(0, 1), labels.flatten())
    print(f"step {step}: loss {loss.item():.4f}, weights {[round(w, 4) for w in elmo.mixes[0].weights().tolist()]}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
