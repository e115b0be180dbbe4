"""Repeated application of one block, and halting, against computations by position in plain Python."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import MultiHead
from regard.attention.patterns import Causal, Padding
from regard.attention.positions import Timed
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.layers import Block, FeedForward, PostNorm
from regard.layers.penalty import penalties
from regard.layers.universal import THRESHOLD, Universal, counting_from

WIDTH = 12


def block(*, causal: bool = False) -> Block:
    return Block(
        attention=MultiHead(WIDTH, heads=3, pattern=Causal() if causal else None),
        feed_forward=FeedForward(WIDTH, hidden=17),
        wiring=PostNorm(),
        width=WIDTH,
    )


def universal(*, steps: int = 6, halting: bool = True, causal: bool = False, ponder: float = 0.01) -> Universal:
    """With a halting unit that keeps some positions running to the end and stops others early."""
    torch.manual_seed(0)
    made = Universal(
        block(causal=causal), steps=steps, width=WIDTH, final=nn.Identity(), halting=halting, ponder=ponder
    )
    if made.halts is not None:
        nn.init.normal_(made.halts.weight, std=1.2)
        nn.init.constant_(made.halts.bias, -1.0)
    return made.double().eval()


def inputs(rows: int = 3, length: int = 7) -> Tensor:
    return torch.randn(rows, length, WIDTH, dtype=torch.double, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def states_and_probabilities(
    layer: Universal, x: Tensor, pattern: Padding | None = None
) -> list[tuple[Tensor, Tensor]]:
    """What each step leaves, with the copies of halted positions, decided position by position: (B, L, M), (B, L)"""
    found, sums = [], [[0.0] * x.shape[1] for _ in range(x.shape[0])]
    at = torch.arange(x.shape[1])
    for step in range(layer.steps):
        after = layer.block(Timed().on_input(x, at, time=step + 1), pattern=pattern)
        x = x.clone()
        for row, row_sums in enumerate(sums):
            for place, total in enumerate(row_sums):
                if total < layer.threshold:
                    x[row, place] = after[row, place]
                    score = layer.halts(x[row, place])  # type: ignore[misc]
                    row_sums[place] += 1 / (1 + math.exp(-score.item()))
        found.append((x, layer.halts(x).sigmoid().squeeze(-1)))  # type: ignore[misc]
    return found


def pondered(probabilities: list[float], threshold: float = THRESHOLD) -> tuple[list[float], int, float]:
    """The weights of the steps, N and R of one position, by the definition (Graves 2016, equations 6 to 8)."""
    steps = len(probabilities)
    count = next((n for n in range(1, steps) if sum(probabilities[:n]) >= threshold), steps)
    rest = 1 - sum(probabilities[: count - 1])
    return [*probabilities[: count - 1], rest, *[0.0] * (steps - count)], count, rest


def test_one_step_without_halting_is_a_plain_block() -> None:
    layer, x = universal(steps=1, halting=False), inputs()
    assert_close(layer(x), layer.block(Timed().on_input(x, torch.arange(7), time=1)), rtol=0, atol=0)
    assert layer.halts is None


def test_without_halting_the_block_is_applied_again_and_again() -> None:
    layer, x = universal(steps=3, halting=False), inputs()
    expected = x
    for time in (1, 2, 3):
        expected = layer.block(Timed().on_input(expected, torch.arange(7), time=time))
    assert_close(layer(x), expected, rtol=0, atol=0)


@pytest.mark.parametrize("lengths", [None, [7, 4, 1]])
def test_halting_is_that_of_each_position_alone(lengths: list[int] | None) -> None:
    layer, x = universal(ponder=0.5), inputs()
    pattern = None if lengths is None else Padding(torch.tensor(lengths))
    with torch.no_grad(), penalties() as added, recording(layer) as seen:
        out = layer(x, pattern=pattern)
    with torch.no_grad(), penalties() as quickly:
        assert_close(layer(x, pattern=pattern), out)
    steps = states_and_probabilities(layer, x, pattern)
    counts, costs = set(), []
    for row in range(3):
        for place in range(7):
            weights, count, rest = pondered([float(each[row, place]) for _, each in steps])
            counts.add(count)
            expected = sum(weight * state[row, place] for weight, (state, _) in zip(weights, steps, strict=True))
            assert_close(out[row, place], expected)
            assert seen["halting"][row, 0, place].tolist() == pytest.approx(weights)
            if lengths is None or place < lengths[row]:
                costs.append(count + rest)
    assert len(counts) > 2, "positions should halt at different steps for this test to say anything"
    for found in (added, quickly):
        assert [each.item() for each in found] == [pytest.approx(0.5 * sum(costs) / len(costs))]


def test_weights_sum_to_one_and_copies_stay() -> None:
    layer, x = universal(), inputs()
    with recording(layer) as seen:
        layer(x)
    weights = seen["halting"]
    assert weights.shape == (3, 1, 7, 6)
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), torch.ones(3, 1, 7, dtype=torch.double))
    assert seen.columns("halting") == "step"
    assert list(seen) == [*(f"{step}.block.attention" for step in range(6)), "halting"]


def test_a_position_that_halts_at_once_is_the_first_state() -> None:
    layer, x = universal(), inputs()
    assert layer.halts is not None
    nn.init.constant_(layer.halts.bias, 1e3)
    assert_close(layer(x), layer.block(Timed().on_input(x, torch.arange(7), time=1)), rtol=0, atol=0)


def test_blocks_are_not_computed_when_every_position_has_halted() -> None:
    layer, x, calls = universal(), inputs(), 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    layer.block.register_forward_hook(count)
    assert layer.halts is not None
    nn.init.zeros_(layer.halts.weight)
    nn.init.constant_(layer.halts.bias, 0.0)  # ½ + ½ ≥ 0.99
    out = layer(x)
    assert calls == 2
    with recording(layer):
        assert_close(layer(x), out)
    assert calls == 8


def test_the_penalty_teaches_through_the_remainder_alone() -> None:
    """R = 1 − Σ_{t<N} p_t, and N is a whole number: ∂(N + R)/∂b = −Σ_{t<N} p_t (1 − p_t), with states held fixed."""
    layer, x = universal(ponder=1.0), inputs(1, 1)
    assert layer.halts is not None
    nn.init.zeros_(layer.halts.weight)
    nn.init.constant_(layer.halts.bias, -0.5)
    with penalties() as added:
        layer(x)
    (found,) = torch.autograd.grad(added[0], layer.halts.bias)
    probability = 1 / (1 + math.exp(0.5))
    assert added[0].item() == pytest.approx(3 + 1 - 2 * probability)  # 0.38 + 0.38 < 0.99 ≤ 3 · 0.38
    assert found.item() == pytest.approx(-2 * probability * (1 - probability))


def test_gradients_are_those_of_small_changes() -> None:
    layer, x = universal(steps=3), inputs(1, 3).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,))


def test_what_comes_later_changes_nothing_to_the_bit() -> None:
    layer, x = universal(causal=True), inputs()
    changed = x.clone()
    changed[:, 4:] = 1e3 * inputs(3, 3)
    assert torch.equal(layer(changed)[:, :4], layer(x)[:, :4])
    assert not torch.equal(layer(changed)[:, 4:], layer(x)[:, 4:])


@pytest.mark.parametrize("halting", [True, False])
def test_caches_give_what_the_whole_gives(halting: bool) -> None:
    layer, x = universal(causal=True, halting=halting), inputs()
    caches, parts = layer.past(), []
    for begin, end in ((0, 3), (3, 4), (4, 7)):
        parts.append(layer(x[:, begin:end], caches=caches))
    assert_close(torch.cat(parts, 1), layer(x))


def test_padding_changes_nothing() -> None:
    layer, x, lengths = universal(), inputs(), [7, 4, 1]
    together = layer(x, pattern=Padding(torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        assert_close(together[row, :length], layer(x[row : row + 1, :length])[0])


def test_positions_can_be_counted_from_another_number() -> None:
    layer, x = universal(steps=1, halting=False), inputs()
    with counting_from(torch.tensor([[5], [0], [100]])):
        found = layer(x)
    for row, first in enumerate((5, 0, 100)):
        alone = x[row : row + 1]
        expected = layer.block(Timed().on_input(alone, torch.arange(first, first + 7), time=1))
        assert_close(found[row], expected[0])
    assert_close(layer(x)[1], found[1])


def test_no_step_at_all_is_refused() -> None:
    with pytest.raises(RegardError, match="steps=0"):
        Universal(block(), steps=0, width=WIDTH, final=nn.Identity())
