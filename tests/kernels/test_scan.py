"""The scan against the plain recurrence, position by position, in double precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.kernels.scan import scan

SPREADS = [
    0.1,
    3.0,
    30.0,
    1000.0,
]  # of what a gate is the sigmoid of: all near a half, mixed, near 0 or 1, exactly both


def recurrence(keep: Tensor, add: Tensor, before: Tensor) -> Tensor:
    states, state = [], before
    for time in range(keep.shape[1]):
        state = keep[:, time] * state + add[:, time]
        states.append(state)
    return torch.stack(states, 1)


def drawn(length: int, spread: float, shift: float = 0.0, *, rows: int = 2, width: int = 5) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(length)
    keep = (torch.randn(rows, length, width, generator=generator) * spread + shift).sigmoid()
    new = torch.randn(rows, length, width, generator=generator)
    return keep, (1 - keep) * new, torch.randn(rows, width, generator=generator)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("shift", [-20.0, 0.0, 20.0])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 331])
def test_states_and_gradients_are_those_of_the_recurrence(length: int, spread: float, shift: float) -> None:
    parts = [part.requires_grad_() for part in drawn(length, spread, shift)]
    exact = [part.detach().double().requires_grad_() for part in parts]
    found, wanted = scan(*parts), recurrence(*exact)
    assert_close(found, wanted.float(), atol=1e-5, rtol=1e-5)
    above = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad(found, parts, above)
    expected = torch.autograd.grad(wanted, exact, above.double())
    for gradient, each in zip(gradients, expected, strict=True):
        assert_close(gradient, each.float(), atol=1e-4, rtol=1e-4)


@settings(max_examples=50, deadline=None)
@given(length=st.integers(1, 70), cut=st.integers(1, 69), gate=st.sampled_from([0.0, 1e-30, 0.5, 1.0 - 1e-7, 1.0]))
def test_a_text_in_two_pieces_is_the_whole_text(length: int, cut: int, gate: float) -> None:
    keep, add, before = drawn(length, 1.0)
    keep = torch.where(torch.rand(keep.shape) < 0.5, gate, keep)
    whole = scan(keep, add, before)
    assert whole.isfinite().all()
    cut = min(cut, length)
    first = scan(keep[:, :cut], add[:, :cut], before)
    assert_close(first, whole[:, :cut])
    if cut < length:
        assert_close(scan(keep[:, cut:], add[:, cut:], first[:, -1]), whole[:, cut:])


def test_gates_that_are_exactly_open_or_shut_are_exact() -> None:
    add = torch.arange(1.0, 12.0).view(1, 11, 1)
    assert torch.equal(scan(torch.ones_like(add), add), add.cumsum(1))
    assert torch.equal(scan(torch.zeros_like(add), add, torch.full((1, 1), 7.0)), add)


def test_gradients_are_those_of_finite_differences() -> None:
    parts = [part.double().requires_grad_() for part in drawn(6, 2.0, rows=1, width=2)]
    assert torch.autograd.gradcheck(scan, parts)
