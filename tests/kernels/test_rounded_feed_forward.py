"""The feed-forward layer that stays in half precision, against the same layer in single precision."""

from typing import Any

import pytest
import torch

from regard.kernels.linear import set_products
from regard.layers import FeedForward
from regard.training.flops import Counting


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_output_and_gradients_are_near_those_of_single_precision(activation: Any, bias: bool) -> None:
    torch.manual_seed(0)
    layer = FeedForward(22, hidden=38, activation=activation, bias=bias)
    x, above, found = torch.randn(3, 27, 22, requires_grad=True), torch.randn(3, 27, 22), []
    for precision in (torch.bfloat16, torch.float32):
        set_products(layer, precision)
        out = layer(x)
        found.append([out, *torch.autograd.grad(out, [x, *layer.parameters()], above)])
    for mine, reference in zip(*found, strict=True):
        assert mine.dtype == torch.float32
        assert 0 < (mine - reference).norm() < 0.05 * reference.norm()  # a sum near 0 may have the other sign in relu


def test_what_does_not_learn_has_no_gradient_and_evaluation_is_exact() -> None:
    layer, x = FeedForward(22, hidden=38), torch.randn(5, 22)
    exact = layer(x)
    set_products(layer, torch.bfloat16)
    layer.inner.requires_grad_(False)
    layer(x).sum().backward()
    assert layer.inner.weight.grad is layer.inner.bias.grad is None
    assert layer.outer.weight.grad is not None
    assert torch.equal(layer.eval()(x), exact)


def test_dropout_between_the_maps_is_the_same_forward_and_backward() -> None:
    """With dropout the layer is made of its parts: what was dropped has no part in the gradient of W₂."""
    torch.manual_seed(0)
    layer = FeedForward(22, hidden=38, dropout=0.5, bias=False)
    set_products(layer, torch.bfloat16)
    out = layer(torch.rand(1, 22))
    out.sum().backward()
    kept = layer.outer.weight.grad[0] != 0  # type: ignore[index]
    assert 0 < kept.sum() < 38
    assert torch.equal((layer.inner.weight.grad != 0).any(1) & ~kept, torch.zeros(38, dtype=torch.bool))


def test_its_products_are_counted() -> None:
    layer = FeedForward(22, hidden=38)
    set_products(layer, torch.bfloat16)
    with Counting() as counting:
        layer(torch.randn(64, 22, requires_grad=True)).sum().backward()
    assert counting.total == 3 * 2 * 64 * 2 * 22 * 38
