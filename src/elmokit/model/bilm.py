"""The bidirectional language model of ELMo, whole.

    token layer     characters -> convolutions -> max -> highways -> projection                 (char_cnn.py)
    each direction  two layers of projected, clipped LSTM; the second adds its input            (lstm.py)
    output          layer 0 is the token layer, twice side by side; layers 1.. are [forward ; backward]

What is special: both directions share the token layer and the softmax and nothing else; the forward direction is the
first half of `dim`; each sentence is run between `<S>` and `</S>`, which are dropped from the output; where a sentence
starts from is given by the caller and where it ended is returned, so the module itself remembers nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import DataError
from ..kernels.engine import check_state
from ..kernels.kept import Kept
from ..kernels.outside_graphs import outside_graphs
from ..settings import check
from ..text.checks import check_ids, check_sentences
from ..text.vocabulary import BEGIN, END, Vocabulary
from .batch import BiLMOutput, BiLMState, CharacterBatch, batch_from_ids, encode, with_marks, without_marks
from .char_cnn import TokenLayer
from .config import BiLMConfig, Direction
from .lstm import LSTMStack, reverse
from .softmax import Softmax

Marks = Literal["drop", "keep", "none"]
NEUTRAL_TOKEN, NEUTRAL_RUNS = ".", 3


class BiLM(nn.Module):
    """Tokens to layers. `vocabulary` is what the softmax predicts, and what is read where the model reads words."""

    def __init__(self, config: BiLMConfig, vocabulary: Vocabulary | None = None) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.token_layer = TokenLayer(config)
        for direction in config.directions:
            self.add_module(f"{direction}_lstm", LSTMStack(config.lstm, token_dim=config.token_dim))
        self.softmax = Softmax(config) if config.softmax else None
        self._settled = Kept[BiLMState]()

    def encode(self, sentences: Sequence[Sequence[str]]) -> CharacterBatch:
        """Token lists to a batch on this model's device."""
        check_sentences(sentences)
        characters, reads_words = self.config.characters, self.config.words is not None
        if reads_words and self.vocabulary is None:
            raise DataError("this model reads words and has no vocabulary", hint="put its vocab.txt beside the weights")
        return encode(
            sentences,
            max_characters_per_token=characters.max_characters_per_token if characters else None,
            vocabulary=self.vocabulary if reads_words else None,
        ).to(self.device)

    def forward(
        self,
        batch: CharacterBatch | Tensor,
        state: BiLMState | None = None,
        *,
        marks: Marks = "drop",
        directions: Sequence[Direction] | None = None,
    ) -> BiLMOutput:
        """`batch` may be a tensor of ids; `state` None is zero. `marks`: whether sentence marks are run and given out.

        "keep" leaves them in the output, "none" runs without them: the middle of a long text.
        """
        batch = self.from_ids(batch) if isinstance(batch, Tensor) else batch
        check((marks in get_args(Marks), f"marks are one of {', '.join(get_args(Marks))}, found {marks!r}"))
        directions = self.config.directions if directions is None else directions
        index = batch.index if marks == "none" else with_marks(batch.index)
        mask = index != 0
        x = self.token_layer(batch)[index] * mask.unsqueeze(2)
        state = self._zero_state(len(index), directions) if state is None else state
        check_state((state.cell, state.hidden), self, n_directions=len(directions), n_rows=len(index))
        outputs, states = [], []
        for i, direction in enumerate(directions):
            stack, backward = getattr(self, f"{direction}_lstm"), direction == "backward"
            output, end = stack(reverse(x, mask) if backward else x, (state.cell[i], state.hidden[i]), mask=mask)
            outputs.append((reverse(output, mask) if backward else output) * mask[None, :, :, None])
            states.append(end)
        layers = torch.cat([torch.cat([x] * len(directions), dim=2)[None], torch.cat(outputs, dim=3)])
        layers, mask = without_marks(layers, mask) if marks == "drop" else (layers, mask)
        return BiLMOutput(layers, mask, BiLMState(*map(torch.stack, zip(*states, strict=True))))

    @outside_graphs
    def start(self, how: Literal["zero", "settled"], n_rows: int) -> BiLMState:
        """The state that `n_rows` sentences start from.

        `settled` is the state after a neutral sentence run three times: the models were trained with a state carried
        from sentence to sentence and never saw zero, and so every sentence starts alike. It is kept until a weight
        changes.
        """
        check((how in ("zero", "settled"), f"a sentence starts from 'zero' or 'settled', found {how!r}"))
        if how == "zero":
            return self._zero_state(n_rows, self.config.directions)
        return self._settled.get(self, self._settle).expand(n_rows)

    def softmax_weights(self) -> tuple[Float[Tensor, "word dim"], Float[Tensor, "word"]]:
        """Weights and bias that predict a word, for both directions."""
        if self.softmax is None:
            raise DataError("this model carries no softmax", hint="language model answers need the whole model")
        if self.softmax.weight is not None:
            return self.softmax.weight, self.softmax.bias
        assert self.token_layer.words is not None
        return self.token_layer.words.weight[1:], self.softmax.bias

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def n_parameters(self) -> int:
        """Numbers that were trained: the padding rows of embeddings are not among them."""
        embeddings = [m for m in self.modules() if isinstance(m, nn.Embedding)]
        return sum(p.numel() for p in self.parameters()) - sum(e.embedding_dim for e in embeddings)

    def from_ids(self, ids: Tensor) -> CharacterBatch:
        """A (batch, token, character) tensor of ids as `encode` would give it."""
        characters, dtype = self.config.characters, ids.dtype
        if characters is None or self.config.words is not None:
            raise DataError("a tensor of ids was given, this model reads words and takes what encode() gives")
        expected = f"whole numbers (batch, token, {characters.max_characters_per_token})"
        is_whole = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
        if ids.dim() != 3 or ids.shape[2] != characters.max_characters_per_token or not is_whole:
            raise DataError(f"{dtype} of shape {tuple(ids.shape)} was given, this model takes {expected}")
        if not torch.compiler.is_compiling():
            check_ids(ids.numpy(force=True), n_characters=characters.n_characters)
        return batch_from_ids(ids.long())  # the marks' ids do not fit in eight bits

    def _zero_state(self, n_rows: int, directions: Sequence[Direction]) -> BiLMState:
        shape = (len(directions), self.config.lstm.n_layers, n_rows)
        zeros = next(self.parameters()).new_zeros
        return BiLMState(zeros(*shape, self.config.lstm.dim), zeros(*shape, self.config.token_dim))

    @torch.inference_mode(False)
    @torch.no_grad()
    def _settle(self) -> BiLMState:
        # The state is kept beyond the caller's inference mode and autocast, and so must not know them.
        known = self.config.characters is not None or NEUTRAL_TOKEN in (self.vocabulary or ())
        batch = self.encode([[BEGIN, NEUTRAL_TOKEN, END] if known else [BEGIN, END]])
        state = self._zero_state(1, self.config.directions)
        with torch.autocast(self.device.type, enabled=False):
            for _ in range(NEUTRAL_RUNS):
                state = self(batch, state, marks="none").state
        return state
