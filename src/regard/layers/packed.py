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


class Halves:
    """x Wᵀ + b of one row, (1, in) → (1, out), as two products in one call.

    A CPU computes them faster than one if there are at least `FEWEST` weights.

    If the number of outputs is odd, the middle one is computed in both halves.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        outputs, width = weight.shape
        self.weight, self.bias, self.half, self.outputs = weight, bias, -(-outputs // 2), outputs
        self.halves = self.added = None
        if weight.device.type == "cpu" and weight.numel() >= FEWEST and outputs > 1:
            first = outputs - self.half  # of the second half
            self.halves = weight.as_strided((2, self.half, width), (first * weight.stride(0), *weight.stride()))
        if bias is not None:
            self.added = bias.as_strided((2, self.half, 1), ((outputs - self.half) * bias.stride(0), bias.stride(0), 1))

    def __call__(self, x: Tensor) -> Tensor:
        if self.halves is None:
            return F.linear(x, self.weight, self.bias)
        columns = x.T.expand(2, -1, 1)
        if self.added is None:
            found = torch.bmm(self.halves, columns).view(1, -1)  # (1, 2 · half)
        else:
            found = torch.baddbmm(self.added, self.halves, columns).view(1, -1)
        return found if self.outputs % 2 == 0 else torch.cat([found[:, : self.half], found[:, self.half + 1 :]], 1)


def _has_onednn() -> bool:
    operators = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in operators)
