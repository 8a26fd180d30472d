"""The recurrence: against `nn.LSTM(proj_size=...)` where the clips are off, and what padding and states do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from elmokit.model.config import LSTMConfig
from elmokit.model.lstm import LSTMLayer, LSTMStack, reverse

PLAIN = LSTMConfig(dim=7, n_layers=2, cell_clip=None, proj_clip=None, skip=False, forget_bias=0.0)
LENGTHS = torch.tensor([6, 1, 4, 0])
MASK = torch.arange(6) < LENGTHS[:, None]


def random_stack(config: LSTMConfig, token_dim: int = 5, *, scale: float = 1.0) -> LSTMStack:
    torch.manual_seed(0)
    stack = LSTMStack(config, token_dim=token_dim).double()
    with torch.no_grad():
        for weight in stack.parameters():
            weight.normal_(std=scale)
    return stack


def random_inputs(token_dim: int = 5) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    torch.manual_seed(1)
    x = torch.randn(4, 6, token_dim, dtype=torch.float64) * MASK[:, :, None]
    return x, (torch.randn(2, 4, 7, dtype=torch.float64), torch.randn(2, 4, token_dim, dtype=torch.float64))


def torchs_own(stack: LSTMStack, config: LSTMConfig) -> nn.LSTM:
    own = nn.LSTM(5, 7, num_layers=2, batch_first=True, proj_size=5 if config.projection else 0).double()
    tensors = {}
    for i, layer in enumerate(stack.layers):
        assert isinstance(layer, LSTMLayer)
        tensors |= {f"weight_ih_l{i}": layer.weight_ih, f"weight_hh_l{i}": layer.weight_hh}
        tensors |= {f"bias_ih_l{i}": layer.bias, f"bias_hh_l{i}": torch.zeros_like(layer.bias)}
        tensors |= {} if layer.weight_hr is None else {f"weight_hr_l{i}": layer.weight_hr}
    own.load_state_dict(tensors)
    return own


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_it_is_torchs_lstm_where_nothing_is_clipped() -> None:
    stack = random_stack(PLAIN)
    x, (cell, hidden) = random_inputs()
    for i in (0, 1, 2):  # the oracle of the oracle knows no sentence of no tokens
        n = int(LENGTHS[i])
        row = x[i : i + 1, :n]
        state = cell[:, i : i + 1].contiguous(), hidden[:, i : i + 1].contiguous()
        outputs, (end_cell, end_hidden) = stack(row, state)
        expected, (expected_hidden, expected_cell) = torchs_own(stack, PLAIN)(row, (state[1], state[0]))
        torch.testing.assert_close(outputs[-1], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(end_cell, expected_cell, rtol=0, atol=1e-12)
        torch.testing.assert_close(end_hidden, expected_hidden, rtol=0, atol=1e-12)


def test_it_is_torchs_lstm_without_a_projection_too() -> None:
    config = replace(PLAIN, dim=5, projection=False, proj_clip=1e-9)
    torch.manual_seed(0)
    stack = random_stack(config)
    own = nn.LSTM(5, 5, num_layers=2, batch_first=True).double()
    for i, layer in enumerate(stack.layers):
        assert isinstance(layer, LSTMLayer) and layer.weight_hr is None
        with torch.no_grad():
            for name, weight in (
                ("weight_ih", layer.weight_ih),
                ("weight_hh", layer.weight_hh),
                ("bias_ih", layer.bias),
            ):
                getattr(own, f"{name}_l{i}").copy_(weight)
            getattr(own, f"bias_hh_l{i}").zero_()
    x = torch.randn(3, 6, 5, dtype=torch.float64)
    zero = torch.zeros(2, 3, 5, dtype=torch.float64)
    outputs, _ = stack(x, (zero, zero))
    torch.testing.assert_close(outputs[-1], own(x)[0], rtol=0, atol=1e-12)


def test_a_batch_is_its_rows_and_padding_keeps_the_state() -> None:
    stack = random_stack(replace(PLAIN, cell_clip=1.0, proj_clip=0.5, skip=True))
    x, (cell, hidden) = random_inputs()
    outputs, (end_cell, end_hidden) = stack(x, (cell, hidden), mask=MASK)
    for i, n in enumerate(LENGTHS.tolist()):
        start = cell[:, i : i + 1], hidden[:, i : i + 1]
        alone, (own_cell, own_hidden) = stack(x[i : i + 1, :n], start, mask=MASK[i : i + 1, :n])
        torch.testing.assert_close(outputs[:, i : i + 1, :n], alone, rtol=0, atol=1e-13)
        torch.testing.assert_close(end_cell[:, i : i + 1], own_cell, rtol=0, atol=1e-13)
        torch.testing.assert_close(end_hidden[:, i : i + 1], own_hidden, rtol=0, atol=1e-13)
    assert torch.equal(end_cell[:, 3], cell[:, 3]) and torch.equal(end_hidden[:, 3], hidden[:, 3])


def test_no_mask_is_a_mask_that_hides_nothing() -> None:
    stack = random_stack(PLAIN)
    x, state = random_inputs()
    torch.testing.assert_close(stack(x, state), stack(x, state, mask=torch.ones_like(MASK)), rtol=0, atol=0)


def test_where_a_text_begins_nothing_is_remembered() -> None:
    stack = random_stack(PLAIN)
    x, state = random_inputs()
    begins = torch.zeros_like(MASK)
    begins[:, 0], begins[1, 3], begins[3, 5] = torch.tensor([True, False, False, True]), True, True
    outputs, (cell, hidden) = stack(x, state, begins=begins)
    zero = torch.zeros_like(state[0]), torch.zeros_like(state[1])
    for i in range(4):
        starts = sorted({0, *begins[i].nonzero().flatten().tolist()})
        for first, last in zip(starts, [*starts[1:], 6], strict=True):
            before = zero if begins[i, first] else state
            alone, end = stack(x[i : i + 1, first:last], (before[0][:, i : i + 1], before[1][:, i : i + 1]))
            torch.testing.assert_close(outputs[:, i : i + 1, first:last], alone, rtol=0, atol=1e-13)
        torch.testing.assert_close((cell[:, i : i + 1], hidden[:, i : i + 1]), end, rtol=0, atol=1e-13)


def test_clips_bound_the_cell_and_the_projected_output() -> None:
    config = replace(PLAIN, cell_clip=0.3, proj_clip=0.2)
    x, state = random_inputs()
    outputs, (cell, _) = random_stack(config, scale=3.0)(x, state)
    assert cell.abs().max() == 0.3
    assert outputs.abs().max() == 0.2


def test_the_skip_connection_stays_out_of_the_state() -> None:
    """A layer's input is added to its output, from the second layer on, after the state was stored."""
    x, state = random_inputs()
    with_skip, without = (random_stack(replace(PLAIN, skip=skip)) for skip in (True, False))
    outputs, end = with_skip(x, state)
    plain, plain_end = without(x, state)
    torch.testing.assert_close(outputs[0], plain[0], rtol=0, atol=0)
    torch.testing.assert_close(outputs[1], plain[1] + plain[0], rtol=0, atol=1e-14)
    torch.testing.assert_close(end, plain_end, rtol=0, atol=0)


def test_the_forget_bias_is_a_part_of_the_bias() -> None:
    x, state = random_inputs()
    added, stored = random_stack(replace(PLAIN, forget_bias=1.0)), random_stack(PLAIN)
    with torch.no_grad():
        for layer in stored.layers:
            assert isinstance(layer, LSTMLayer)
            layer.bias[7:14] += 1.0
    torch.testing.assert_close(added(x, state, mask=MASK), stored(x, state, mask=MASK), rtol=0, atol=1e-14)


def test_no_steps_keep_the_state() -> None:
    x, state = random_inputs()
    outputs, end = random_stack(PLAIN)(x[:, :0], state, mask=MASK[:, :0])
    assert outputs.shape == (2, 4, 0, 5)
    torch.testing.assert_close(end, state, rtol=0, atol=0)


def test_reversing_stays_within_each_sentence() -> None:
    x = torch.tensor([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [0.0]], [[0.0], [0.0], [0.0]]])
    mask = x[:, :, 0] != 0
    turned = reverse(x, mask)
    assert turned[:, :, 0].tolist() == [[3, 2, 1], [5, 4, 0], [0, 0, 0]]
    assert torch.equal(reverse(turned, mask), x)
    assert torch.equal(reverse(torch.stack([x, -x]), mask), torch.stack([turned, -turned]))


@pytest.mark.parametrize("row", [0, 1, 2])
def test_gradients_are_right(row: int) -> None:
    """Clips far enough to be crossed by nothing, then near enough to be crossed by much."""
    x, state = random_inputs()
    n = int(LENGTHS[row])
    own = x[row : row + 1, :n].clone().requires_grad_()
    start = [part[:, row : row + 1].clone().requires_grad_() for part in state]
    for clip in (None, 0.4):
        stack = random_stack(replace(PLAIN, cell_clip=clip, proj_clip=clip, skip=True))

        def run(x: Tensor, cell: Tensor, hidden: Tensor, *_: Tensor, stack: LSTMStack = stack) -> tuple[Tensor, ...]:
            outputs, end = stack(x, (cell, hidden))
            return outputs, *end

        assert torch.autograd.gradcheck(run, (own, *start, *stack.parameters()), fast_mode=True)
