"""A product with the same weights again and again, as with those of a whole vocabulary at every step."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEWEST, MOST = 1 << 18, 1 << 22  # weights between which packing is soon worth its time


class Packed:
    """linear(x) with weights that oneDNN has packed for its own kernels: a copy, of the weights as they are now.

    (N, in) → (N, out), without gradients. Packing takes as long as one product of a hundred rows; a product of a few
    rows is then twice as fast. Where oneDNN has no such kernel, this is the linear map itself.
    """

    def __init__(self, linear: nn.Linear) -> None:
        self.linear = linear
        weight = linear.weight
        fits = weight.device.type == "cpu" and weight.dtype == torch.float32 and FEWEST <= weight.numel() <= MOST
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight) if fits and _has_onednn() else None

    def __call__(self, x: Tensor) -> Tensor:
        if self.weight is None:
            return F.linear(x, self.linear.weight, self.linear.bias)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.linear.bias, "none", [], "")
        return result


def _has_onednn() -> bool:
    operators = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in operators)
