"""The output layer: which word comes next. Both directions share it."""

from __future__ import annotations

import torch
from torch import nn

from .config import BiLMConfig


class Softmax(nn.Module):
    """A weight and a bias for each word. Tied, the weights are the word embedding's: see `BiLM.softmax_weights`."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        assert config.softmax is not None
        n_words = config.softmax.n_words
        self.bias = nn.Parameter(torch.zeros(n_words))
        self.weight = None if config.softmax.tied else nn.Parameter(torch.empty(n_words, config.token_dim))
        if self.weight is not None:
            nn.init.normal_(self.weight, std=config.token_dim**-0.5)
