"""A mixture of experts against the equation in plain torch, and its laws."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.layers.experts import Experts
from regard.layers.penalty import penalised, penalties


def reference(layer: Experts, x: torch.Tensor) -> torch.Tensor:
    """Every position alone, expert by expert."""
    rows = []
    for row in x.flatten(0, -2):
        probability = torch.softmax(layer.gate.weight @ row, 0)
        chosen = sorted(range(len(probability)), key=lambda e: -probability[e].item())[: layer.used]
        total = sum(probability[e] for e in chosen)
        rows.append(sum(probability[e] / total * layer.experts[e](row.unsqueeze(0))[0] for e in chosen))
    return torch.stack(rows).view_as(x)


@given(count=st.integers(1, 6), length=st.integers(1, 7), data=st.data())
@settings(max_examples=25, deadline=None)
def test_the_equation_forward_and_backward(count, length, data):
    used = data.draw(st.integers(1, count))
    torch.manual_seed(count * 100 + length * 10 + used)
    layer = Experts(6, hidden=10, count=count, used=used).double()
    torch.nn.init.normal_(layer.gate.weight)
    x = torch.randn(2, length, 6, dtype=torch.double, requires_grad=True)
    ours, theirs = layer(x), reference(layer, x)
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn_like(ours)
    inputs = [x, *layer.parameters()]
    found = torch.autograd.grad((ours * weight).sum(), inputs, allow_unused=True)
    expected = torch.autograd.grad((theirs * weight).sum(), inputs, allow_unused=True)
    for ours_gradient, theirs_gradient in zip(found, expected, strict=True):
        zero = torch.zeros(())
        torch.testing.assert_close(
            zero if ours_gradient is None else ours_gradient, zero if theirs_gradient is None else theirs_gradient
        )


def test_a_position_does_not_depend_on_the_others():
    torch.manual_seed(0)
    layer = Experts(8, hidden=16, count=4)
    x = torch.randn(3, 5, 8)
    torch.testing.assert_close(layer(x)[1, 2], layer(x[1:2, 2:3])[0, 0])


def test_the_penalty_is_least_when_all_experts_are_used_equally():
    layer = Experts(4, hidden=4, count=4, used=1, balance=1.0)
    with torch.no_grad():
        layer.gate.weight.copy_(20 * torch.eye(4))
    with penalties() as even:
        layer(torch.eye(4).unsqueeze(0))
    with penalties() as uneven:
        layer(torch.eye(4)[:1].expand(4, 4).unsqueeze(0))
    assert even[0].item() == pytest.approx(1.0, abs=1e-3)  # E Σ f p̄ = 4 · 4 · ¼ · ¼
    assert uneven[0].item() == pytest.approx(4.0, abs=1e-3)  # E · 1 · 1


def test_penalties_are_computed_only_where_they_are_collected():
    assert not penalised()
    with penalties() as outer:
        with penalties() as inner:
            Experts(4, hidden=4, count=2)(torch.randn(1, 2, 4))
        assert len(inner) == 1
        assert outer == []
    assert not penalised()


def test_more_experts_used_than_there_are_is_refused():
    with pytest.raises(RegardError, match="experts=2 and experts_used=3"):
        Experts(4, hidden=4, count=2, used=3)
