"""A linear map whose products may be computed in half precision while training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

GRAIN = 64  # the number of rows in a rounded product is a multiple of this


class Linear(nn.Linear):
    """nn.Linear; while training on a CPU, `products=torch.bfloat16` makes its matrix products faster:

        y = round(x) round(W)ᵀ + b            rounded to `products`; each product is summed in float32

    (…, in) → (…, out).   W, b and y are float32 as before. Autocast would leave y in bfloat16 too, in which
    norms, residuals, softmax and dropout are slower on a CPU. In evaluation nothing is rounded.
    """

    products: torch.dtype = torch.float32

    def forward(self, x: Tensor) -> Tensor:
        if self.products == torch.float32 or not self.training:
            return super().forward(x)
        (rows,) = _Rounded.apply(x.reshape(-1, self.in_features), self.products, self.weight, self.bias)
        return rows.view(*x.shape[:-1], self.out_features)


def map_together(x: Tensor, *linears: Linear) -> list[Tensor]:
    """linear(x) of each: (…, in) → (…, out) each.

    If all of them learn with rounded products, x is rounded once, one product makes all outputs, and one product
    makes the gradient of x.
    """
    first = linears[0]
    alike = all(type(linear) is Linear and linear.products == first.products for linear in linears)
    if first.products == torch.float32 or not (first.training and alike):
        return [linear(x) for linear in linears]
    parameters = [parameter for linear in linears for parameter in (linear.weight, linear.bias)]
    found = _Rounded.apply(x.reshape(-1, first.in_features), first.products, *parameters)
    return [rows.view(*x.shape[:-1], rows.shape[1]) for rows in found]


def set_products(model: nn.Module, precision: torch.dtype) -> None:
    """Let every linear map of the model learn with products in `precision`."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.products = precision


def rounded(x: Tensor, precision: torch.dtype) -> Tensor:
    """x (N, M) in another precision, filled up with rows of zeros to a multiple of `GRAIN`.

    The CPU library compiles and keeps a half-precision product for every new shape, which takes time and memory. With
    rows added, batches of all sizes share a few shapes.
    """
    return _beside([x], precision)


def _beside(parts: Sequence[Tensor], precision: torch.dtype) -> Tensor:
    """`rounded` of several matrices (N, M₁), (N, M₂), … side by side: (N, M₁ + M₂ + …)"""
    length, widths = len(parts[0]), [part.shape[1] for part in parts]
    result = parts[0].new_empty(length + -length % GRAIN, sum(widths), dtype=precision)
    for place, part in zip(result[:length].split(widths, 1), parts, strict=True):
        place.copy_(part)
    if len(result) > length:
        result[length:] = 0
    return result


class _Rounded(torch.autograd.Function):
    """x, the precision, then weight and bias of each linear map → the output of each"""

    @staticmethod
    def forward(context: Any, x: Tensor, precision: torch.dtype, *parameters: Tensor | None) -> tuple[Tensor, ...]:
        weights, biases = cast(tuple[Tensor, ...], parameters[0::2]), parameters[1::2]
        rows = rounded(x, precision)
        matrices = [weight.to(precision) for weight in weights]
        matrix = torch.cat(matrices) if len(matrices) > 1 else matrices[0]
        context.save_for_backward(rows, matrix)
        context.sizes = [len(weight) for weight in weights]
        products = (rows @ matrix.T)[: len(x)].split(context.sizes, 1)
        results = [product.to(x.dtype) for product in products]
        return tuple(y if bias is None else y.add_(bias) for y, bias in zip(results, biases, strict=True))

    @staticmethod
    @once_differentiable
    def backward(context: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = context.saved_tensors
        needed, kind = context.needs_input_grad, above[0].dtype
        rough = _beside(above, rows.dtype)
        to_x = (rough @ matrix)[: len(above[0])].to(kind) if needed[0] else None
        to_weights = (rough.T @ rows).split(context.sizes) if any(needed[2::2]) else rough.new_empty(len(above))
        to_parameters: list[Tensor | None] = []
        for number, to_weight in enumerate(to_weights):
            to_parameters.append(to_weight.to(kind) if needed[2 + 2 * number] else None)
            to_parameters.append(above[number].sum(0) if needed[3 + 2 * number] else None)
        return to_x, None, *to_parameters
