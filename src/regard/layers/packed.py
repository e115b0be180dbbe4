"""Faster products for weights that are used at every decoding step, such as those of the output layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

FEWEST, MOST = 1 << 17, 1 << 22  # packing pays for matrices with at least and at most this many weights


class Packed:
    """x Wᵀ + b with a copy of the present weights that oneDNN has packed for its own kernels.

    (N, in) → (N, out), without gradients. Packing takes as long as one product of a hundred rows; a product of a few
    rows is then twice as fast. Where oneDNN has no such kernel, the product is torch's own.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.plain, self.bias = weight, bias
        fits = weight.device.type == "cpu" and weight.dtype == torch.float32 and FEWEST <= weight.numel() <= MOST
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight) if fits and _has_onednn() else None

    def __call__(self, x: Tensor) -> Tensor:
        if self.weight is None:
            return F.linear(x, self.plain, self.bias)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return result


def by_halves(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b of one row, (1, in) → (1, out), as two products in one call, which a CPU computes faster than one.

    If the number of outputs is odd, the middle one is computed in both halves.
    """
    outputs = len(weight)
    if weight.device.type != "cpu" or outputs < 2:
        return F.linear(x, weight, bias)
    half = -(-outputs // 2)
    halves = weight.as_strided((2, half, x.shape[1]), ((outputs - half) * weight.stride(0), *weight.stride()))
    found = torch.bmm(halves, x.T.expand(2, -1, 1)).view(1, -1)  # (1, 2 · half)
    if outputs % 2:
        found = torch.cat([found[:, :half], found[:, half + 1 :]], 1)
    return found if bias is None else found.add_(bias)


def _has_onednn() -> bool:
    operators = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in operators)
