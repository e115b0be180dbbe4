"""The SSRU against its equation, position by position."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.attention.patterns import Causal
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.kernels.linear import set_products
from regard.layers.blocks import Block
from regard.layers.feed_forward import FeedForward
from regard.layers.ssru import SSRU
from regard.layers.wiring import DeepNorm

WIDTH = 7


def unit() -> SSRU:
    torch.manual_seed(0)
    made = SSRU(WIDTH).eval()
    torch.nn.init.normal_(made.forget.bias)
    return made


def equation(part: SSRU, x: Tensor) -> Tensor:
    state, found = torch.zeros_like(x[:, 0]), []
    for now in x.unbind(1):
        f = torch.sigmoid(now @ part.forget.weight.T + part.forget.bias)
        state = f * state + (1 - f) * (now @ part.candidate.weight.T)
        found.append(state.clamp(min=0))
    return torch.stack(found, 1)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_outputs_and_gradients_are_those_of_the_equation(scale: float) -> None:
    part, x = unit(), (torch.randn(3, 241, WIDTH) * scale).requires_grad_()
    inputs = [x, *part.parameters()]
    found, wanted = part(x), equation(part, x)
    assert_close(found, wanted, atol=1e-5 * scale, rtol=1e-5)
    above = torch.randn_like(wanted)
    for gradient, each in zip(
        torch.autograd.grad(found, inputs, above), torch.autograd.grad(wanted, inputs, above), strict=True
    ):
        assert_close(gradient, each, atol=1e-3 * scale, rtol=1e-3)


def test_pieces_with_a_cache_are_the_whole() -> None:
    part, x = unit(), torch.randn(3, 11, WIDTH)
    cache = part.past()
    pieces = [part(piece, cache=cache) for piece in x.split([4, 1, 6], 1)]
    assert_close(torch.cat(pieces, 1), part(x))
    assert cache.length == 11


def test_reordered_rows_go_on_from_their_own_past() -> None:
    part, x, rows = unit(), torch.randn(3, 6, WIDTH), torch.tensor([2, 0, 0, 1])
    cache = part.past()
    part(x[:, :5], cache=cache)
    assert_close(part(x[rows, 5:], cache=cache.reorder(rows)), part(x)[rows, 5:])


def test_half_precision_keeps_the_state_in_single() -> None:
    part, x = unit(), torch.randn(2, 97, WIDTH)
    torch.nn.init.constant_(part.forget.bias, 7.0)  # gates that bfloat16 rounds to 1
    with torch.autocast("cpu", torch.bfloat16):
        found = part(x)
    assert_close(found, part(x), atol=0.02, rtol=0.05)
    set_products(part.train(), torch.bfloat16)
    assert_close(part(x), part.eval()(x), atol=0.02, rtol=0.05)


def test_recorded_weights_are_those_that_the_states_were_made_with() -> None:
    """With one unit, the mean over units is the weight itself."""
    part, x = SSRU(1).eval(), torch.randn(2, 9, 1)
    with recording(part) as record:
        found = part(x)
    weights = record["gates"]  # (B, 1, T, T)
    assert weights.shape == (2, 1, 9, 9)
    assert_close((weights.squeeze(1) @ part.candidate(x)).relu(), found)
    with recording(part) as steps:
        cache = part.past()
        for now in x.split(1, 1):
            part(now, cache=cache)
            cache = cache.reorder(torch.arange(2))
    for time, row in enumerate(steps.calls("gates")):
        assert_close(row, weights[:, :, time : time + 1, : time + 1])


def test_a_state_from_before_the_recording_is_refused() -> None:
    part, x = unit(), torch.randn(1, 2, WIDTH)
    cache = part.past()
    part(x, cache=cache)
    with recording(part), pytest.raises(RegardError, match="begin recording before"):
        part(x, cache=cache)


def test_a_pattern_is_refused() -> None:
    with pytest.raises(RegardError, match="needs attention"):
        unit()(torch.randn(1, 2, WIDTH), pattern=Causal())


def test_deep_norm_scales_the_candidates() -> None:
    torch.manual_seed(0)
    wiring = DeepNorm(alpha=2.0, beta=0.1)
    block = Block(attention=SSRU(64), feed_forward=FeedForward(64, hidden=3), wiring=wiring, width=64)
    ratio = block.attention.candidate.weight.std() / block.attention.forget.weight.std()
    assert 0.08 < ratio < 0.12
