"""A linear map whose products may be computed in half precision while training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.kernels.products import product as faster_product

GRAIN = 64  # the number of rows in a rounded product is a multiple of this


class Linear(nn.Linear):
    """nn.Linear; while training on a CPU, `products=torch.bfloat16` makes its matrix products faster:

        y = round(x) round(W)ᵀ + b            rounded to `products`; each product is summed in float32

    (…, in) → (…, out).   W, b and y are float32 as before. Autocast would leave y in bfloat16 too, in which
    norms, residuals, softmax and dropout are slower on a CPU. In evaluation nothing is rounded, and the product is by
    the faster library (`products.py`).
    """

    products: torch.dtype = torch.float32

    def forward(self, x: Tensor) -> Tensor:
        if rounding(self) is None:
            known = torch.is_grad_enabled() or x.device.type != "cpu"
            return super().forward(x) if known else faster_product(x, self.weight, self.bias)
        return _together(x, self)[0]


def map_together(x: Tensor, *linears: Linear) -> list[Tensor]:
    """linear(x) of each: (…, in) → (…, out) each.

    If all of them learn with rounded products, x is rounded once, one product makes all outputs, and one product
    makes the gradient of x.
    """
    return [linear(x) for linear in linears] if rounding(*linears) is None else _together(x, *linears)


def set_products(model: nn.Module, precision: torch.dtype) -> None:
    """Let every linear map of the model learn with products in `precision`."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.products = precision


def rounding(*linears: nn.Module) -> torch.dtype | None:
    """The precision to which all these maps round now; None if they do not, or not alike, or change what they map."""
    first = linears[0]
    if type(first) is not Linear or not first.training or first.products == torch.float32:
        return None
    return first.products if all(type(each) is Linear and each.products == first.products for each in linears) else None


def parameters_of(*linears: Linear) -> Iterator[Tensor | None]:
    """weight, bias, weight, bias, …"""
    return chain.from_iterable((linear.weight, linear.bias) for linear in linears)


def rounded(x: Tensor, precision: torch.dtype) -> Tensor:
    """x (N, M) in another precision, filled up with rows of zeros to a multiple of `GRAIN`.

    The CPU library compiles and keeps a half-precision product for every new shape, which takes time and memory. With
    rows added, batches of all sizes share a few shapes.
    """
    return _beside([x], precision)


def _beside(parts: Sequence[Tensor], precision: torch.dtype) -> Tensor:
    """`rounded` of several matrices (N, M₁), (N, M₂), … side by side: (N, M₁ + M₂ + …)"""
    length, widths = len(parts[0]), [part.shape[1] for part in parts]
    result = room_for(length, sum(widths), like=parts[0], precision=precision)
    for place, part in zip(result[:length].split(widths, 1), parts, strict=True):
        place.copy_(part)
    return result


def room_for(length: int, width: int, *, like: Tensor, precision: torch.dtype) -> Tensor:
    """A matrix of `length` rows to write to, and below them rows of zeros up to a multiple of `GRAIN`."""
    result = like.new_empty(length + -length % GRAIN, width, dtype=precision)
    if len(result) > length:
        result[length:] = 0
    return result


def joined(parameters: Sequence[Tensor | None], precision: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """weight, bias, weight, bias, … of maps of the same rows as one matrix, rounded, and one bias, which is not."""
    weights = [weight for weight in parameters[0::2] if weight is not None]
    biases = parameters[1::2]
    matrices = [weight.to(precision) for weight in weights]
    if len(matrices) == 1:
        return matrices[0], biases[0]
    if all(bias is None for bias in biases):
        return torch.cat(matrices), None
    pairs = zip(weights, biases, strict=True)
    added = [weight.new_zeros(len(weight)) if bias is None else bias for weight, bias in pairs]
    return torch.cat(matrices), torch.cat(added)


def product(rows: Tensor, matrix: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """X Wᵀ + b, or max(0, X Wᵀ + b): rows (N, in), matrix (out, in), bias (out,) → (N, out) in the precision of rows.

    oneDNN adds the bias and leaves out what is negative while it has the sums at hand.
    """
    if rows.dtype == torch.bfloat16 and _onednn_rounds():
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, matrix, bias, "relu" if relu else "none", [], "")
        return found
    found = F.linear(rows, matrix, None if bias is None else bias.to(rows.dtype))
    return found.relu_() if relu else found


@cache
def _onednn_rounds() -> bool:
    operators = ("_linear_pointwise", "_is_mkldnn_bf16_supported")
    there = torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in operators)
    return there and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def to_parameters(
    above: Tensor, rows: Tensor, parameters: Sequence[Tensor | None], needed: Sequence[bool]
) -> list[Tensor | None]:
    """The gradients that are needed of weight, bias, weight, bias, … that made X Wᵀ + b of these rows.

        dW = dYᵀ X        db = Σ_n dY_n

    rows X (N, in), above dY (N, out).
    """
    weights = [weight for weight in parameters[0::2] if weight is not None]
    sizes, kind = [len(weight) for weight in weights], weights[0].dtype
    to_weights = (above.T @ rows).to(kind).split(sizes) if any(needed[0::2]) else weights
    to_biases = above.sum(0).to(kind).split(sizes) if any(needed[1::2]) else weights
    pairs = chain.from_iterable(zip(to_weights, to_biases, strict=True))
    return [gradient if wanted else None for gradient, wanted in zip(pairs, needed, strict=True)]


def _together(x: Tensor, *linears: Linear) -> list[Tensor]:
    found = _Rounded.apply(x.reshape(-1, x.shape[-1]), linears[0].products, *parameters_of(*linears))
    return [rows.view(*x.shape[:-1], rows.shape[1]) for rows in found]


class _Rounded(torch.autograd.Function):
    """x, the precision, then weight and bias of each linear map → the output of each"""

    @staticmethod
    def forward(context: Any, x: Tensor, precision: torch.dtype, *parameters: Tensor | None) -> tuple[Tensor, ...]:
        rows = rounded(x, precision)
        matrix, bias = joined(parameters, precision)
        context.save_for_backward(rows, matrix, *parameters)
        sizes = [len(weight) for weight in parameters[0::2] if weight is not None]
        return tuple(y.to(x.dtype) for y in product(rows, matrix, bias)[: len(x)].split(sizes, 1))

    @staticmethod
    @once_differentiable
    def backward(context: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix, *parameters = context.saved_tensors
        needed = context.needs_input_grad
        rough = _beside(above, rows.dtype)
        to_x = (rough @ matrix)[: len(above[0])].to(above[0].dtype) if needed[0] else None
        return to_x, None, *to_parameters(rough, rows, parameters, needed[2:])
