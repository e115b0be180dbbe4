"""A gated sum over all earlier positions, at all positions at once.

    c_t = f_t ⊙ c_{t−1} + b_t                     t = 1 … T

Two neighbouring steps are one step of the same form, c_t = f_t f_{t−1} ⊙ c_{t−2} + (f_t ⊙ b_{t−1} + b_t). Pairs of
positions therefore form a recurrence of half the length, which gives every second c; the others follow from their
neighbours (Blelloch 1990). There are log₂ T rounds, and the work grows with T as that of a loop does. Gates are only
multiplied, never divided by, so gates of exactly 0 and 1 are exact and nothing overflows.

B batch  T length  M width
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def scan(keep: Tensor, add: Tensor, before: Tensor | None = None) -> Tensor:
    """All c_t: keep f (B, T, M) in [0, 1], add b (B, T, M), before c_0 (B, M), zeros if None → (B, T, M)"""
    before = torch.zeros_like(add[:, 0]) if before is None else before
    states: Tensor = _Scan.apply(keep, add, before)
    return states


class _Scan(torch.autograd.Function):
    """The gradient is the same recurrence from the end: g_t = ∂/∂c_t + f_{t+1} ⊙ g_{t+1}, of which

    ∂/∂b_t = g_t        ∂/∂f_t = g_t ⊙ c_{t−1}        ∂/∂c_0 = f_1 ⊙ g_1
    """

    @staticmethod
    def forward(context: Any, keep: Tensor, add: Tensor, before: Tensor) -> Tensor:
        first = torch.addcmul(add[:, :1], keep[:, :1], before.unsqueeze(1))
        states = _scanned(keep, torch.cat([first, add[:, 1:]], 1))
        context.save_for_backward(keep, before, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keep, before, states = context.saved_tensors
        later = keep.roll(-1, 1).flip(1)  # f_{t+1}, from the end on; the first is multiplied by nothing
        gradient = _scanned(later, above.flip(1)).flip(1)
        earlier = torch.cat([before.unsqueeze(1), states[:, :-1]], 1)
        return gradient * earlier, gradient, keep[:, 0] * gradient[:, 0]


def _scanned(keep: Tensor, add: Tensor) -> Tensor:
    """The recurrence from c_0 = 0: (B, T, M) → (B, T, M)"""
    length = add.shape[1]
    if length < 2:
        return add
    even = length - length % 2
    one, other = keep[:, 0:even:2], keep[:, 1:even:2]
    pairs = _scanned(one * other, torch.addcmul(add[:, 1:even:2], other, add[:, 0:even:2]))
    states = torch.empty_like(add)
    states[:, 0], states[:, 1::2] = add[:, 0], pairs
    if length > 2:
        between = states[:, 2::2]
        torch.addcmul(add[:, 2::2], keep[:, 2::2], pairs[:, : between.shape[1]], out=between)
    return states
