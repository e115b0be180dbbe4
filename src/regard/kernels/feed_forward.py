"""The feed-forward layer in half precision while it learns: what is between its two products stays rounded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.kernels.gelu import rounded_gelu_tanh, rounded_gelu_tanh_backward
from regard.kernels.linear import Linear, joined, parameters_of, product, rounded, to_parameters


def feed_forward(x: Tensor, inner: Linear, outer: Linear, activation: str) -> Tensor:
    """W₂ f(W₁ x + b₁) + b₂ for two maps that round to one precision: (…, M) → (…, M).

    f is relu, gelu, gelu_tanh or silu.   A hidden layer is the widest of a model: to cast it to float32 and back takes
    as long as a product with it.
    """
    rows = x.reshape(-1, x.shape[-1])
    return _FeedForward.apply(rows, activation, inner.products, *parameters_of(inner, outer)).view(x.shape)


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, activation: str, precision: torch.dtype, *parameters: Tensor | None) -> Tensor:
        rows = rounded(x, precision)
        (inward, below), (outward, added) = joined(parameters[:2], precision), joined(parameters[2:], precision)
        hidden = product(rows, inward, below, relu=activation == "relu")
        bent = _bent(hidden, activation)
        context.save_for_backward(rows, hidden, bent, inward, outward, *parameters)
        context.activation = activation
        return product(bent, outward, added)[: len(x)].to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        rows, hidden, bent, inward, outward, *parameters = context.saved_tensors
        needed = context.needs_input_grad
        rough = rounded(above, rows.dtype)
        to_outer = to_parameters(rough, bent, parameters[2:], needed[5:])
        to_hidden = _unbent(rough @ outward, hidden, context.activation)
        to_inner = to_parameters(to_hidden, rows, parameters[:2], needed[3:5])
        to_x = (to_hidden @ inward)[: len(above)].to(above.dtype) if needed[0] else None
        return to_x, None, None, *to_inner, *to_outer


def _bent(hidden: Tensor, activation: str) -> Tensor:
    """f(hidden); relu is already in the product."""
    match activation:
        case "relu":
            return hidden
        case "gelu":
            return F.gelu(hidden)
        case "gelu_tanh":
            return rounded_gelu_tanh(hidden)
        case _:
            return F.silu(hidden)


def _unbent(above: Tensor, hidden: Tensor, activation: str) -> Tensor:
    """f'(hidden) ⊙ above"""
    match activation:
        case "relu":
            return torch.ops.aten.threshold_backward(above, hidden, 0)
        case "gelu":
            return torch.ops.aten.gelu_backward(above, hidden)
        case "gelu_tanh":
            return rounded_gelu_tanh_backward(above, hidden)
        case _:
            return torch.ops.aten.silu_backward(above, hidden)
