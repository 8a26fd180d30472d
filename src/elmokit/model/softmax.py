"""The output layer: which word comes next. Both directions share it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .config import BiLMConfig


class Softmax(nn.Module):
    """Log probabilities over the vocabulary. Tied, its weights are the word embedding's."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        assert config.softmax is not None
        n_words = config.softmax.n_words
        self.bias = nn.Parameter(torch.zeros(n_words))
        self.weight = None if config.softmax.tied else nn.Parameter(torch.empty(n_words, config.token_dim))
        if self.weight is not None:
            nn.init.normal_(self.weight, std=config.token_dim**-0.5)

    def forward(
        self, hidden: Float[Tensor, "*any dim"], embedding: Float[Tensor, "row dim"] | None = None
    ) -> Float[Tensor, "*any word"]:
        """`embedding` is the model's word embedding, padding row and all, where the weights are tied to it."""
        weight = self.weight if embedding is None else embedding[1:]
        assert weight is not None
        return F.linear(hidden, weight, self.bias).log_softmax(dim=-1)
