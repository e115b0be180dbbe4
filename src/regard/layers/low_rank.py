"""LoRA: a linear map with fixed weights that learns a change of low rank."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.kernels.linear import Linear

SCALE = 2.0  # α / r


class LowRank(Linear):
    """y = W x + b + (α/r) U D x, where only D (r, in) and U (out, r) learn.                     Hu 2021 (LoRA), 4.1

    (…, in) → (…, out).   U starts at zero, so that the output is unchanged in the beginning.
    """

    def __init__(self, linear: nn.Linear, *, rank: int) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.down = nn.Parameter(torch.empty(rank, linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=5**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + SCALE * F.linear(F.linear(x, self.down), self.up)


NAMES = ("query", "value", "queries", "values")  # the linear maps that change, whichever of these an attention has


def add_low_rank(module: nn.Module, *, rank: int, names: tuple[str, ...] = NAMES) -> int:
    """Replace all linear maps of these names in the module by `LowRank`, and return how many there are."""
    changed = 0
    for parent in list(module.modules()):
        for name in names:
            linear = getattr(parent, name, None)
            if isinstance(linear, nn.Linear):
                setattr(parent, name, LowRank(linear, rank=rank))
                changed += 1
    return changed


def merged(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by name, with every change of low rank added to its weight: W + (α/r) U D."""
    plain = {name: tensor for name, tensor in weights.items() if not name.endswith((".up", ".down"))}
    for name, up in weights.items():
        if name.endswith(".up"):
            place = name.removesuffix(".up")
            plain[f"{place}.weight"] = plain[f"{place}.weight"] + SCALE * up @ weights[f"{place}.down"]
    return plain
