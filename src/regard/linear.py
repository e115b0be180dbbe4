"""A linear map whose products may be taken in half the digits while it learns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

GRAIN = 64  # rows of a rounded product come in multiples of this


class Linear(nn.Linear):
    """torch's own, and while training on a CPU with `products=torch.bfloat16`, faster:

        y = round(x) round(W)ᵀ + b            rounded to `products`; each product is summed in float32

    (…, in) → (…, out).   W, b and y are float32 as before. Autocast would leave y in bfloat16 too, and what is not a
    product (norms, residuals, softmax, dropout) is slower in it on a CPU. In evaluation nothing is rounded.
    """

    products: torch.dtype = torch.float32

    def forward(self, x: Tensor) -> Tensor:
        if self.products == torch.float32 or not self.training:
            return super().forward(x)
        rows = _Rounded.apply(x.reshape(-1, self.in_features), self.weight, self.bias, self.products)
        return rows.view(*x.shape[:-1], self.out_features)


def set_products(model: nn.Module, precision: torch.dtype) -> None:
    """Let every linear map of the model learn with products in `precision`."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.products = precision


def rounded(x: Tensor, precision: torch.dtype) -> Tensor:
    """x (N, M) in another precision, filled up with rows of zeros to a multiple of `GRAIN`.

    Products of half precision are compiled for every shape they meet and kept, which takes time and memory: so that
    batches of all sizes share a few shapes.
    """
    missing = -len(x) % GRAIN
    result = torch.empty(len(x) + missing, x.shape[1], dtype=precision, device=x.device)
    result[: len(x)] = x
    if missing:
        result[len(x) :] = 0
    return result


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None, precision: torch.dtype) -> Tensor:
        rows, matrix = rounded(x, precision), weight.to(precision)
        context.save_for_backward(rows, matrix)
        context.biased = bias is not None
        result = (rows @ matrix.T)[: len(x)].to(x.dtype)
        return result if bias is None else result.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = context.saved_tensors
        rough = rounded(above, rows.dtype)
        to_x = (rough @ matrix)[: len(above)].to(above.dtype) if context.needs_input_grad[0] else None
        to_weight = (rough.T @ rows).to(above.dtype) if context.needs_input_grad[1] else None
        to_bias = above.sum(0) if context.biased and context.needs_input_grad[2] else None
        return to_x, to_weight, to_bias, None
