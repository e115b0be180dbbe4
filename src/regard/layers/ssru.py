"""The SSRU, a simpler simple recurrent unit: a decoder's own positions without attention.

    f_t = σ(W_f x_t + b_f)
    c_t = f_t ⊙ c_{t−1} + (1 − f_t) ⊙ W x_t            c_0 = 0
    o_t = relu(c_t)                                                                                      Kim 2019

Gates and candidates depend on x alone, so learning computes all positions at once (`kernels.scan`). A decoding step
needs c_{t−1} and nothing else, however many positions came before.

B batch  T length  K positions so far  M width
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.cache import CAPACITY, Past
from regard.attention.patterns import Pattern
from regard.attention.recorder import deliver, watching
from regard.errors import RegardError
from regard.kernels.linear import Linear, map_together
from regard.kernels.scan import scan

GATES = "gates"  # the name of the weights in a record, after the path of the SSRU


class SSRU(nn.Module):
    """Instead of causal attention of a sequence over itself, and called like it: x (B, T, M) → (B, T, M).

    While weights are recorded, it delivers the weight of each W x_j in c_t, averaged over units: (B, 1, T, K). With
    the weight of c_0, the weights of a unit sum to one.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.forget = Linear(width, width)
        self.candidate = Linear(width, width, bias=False)
        nn.init.xavier_uniform_(self.forget.weight)
        nn.init.zeros_(self.forget.bias)
        nn.init.xavier_uniform_(self.candidate.weight)

    def forward(self, x: Tensor, *, pattern: Pattern | None = None, cache: Past | None = None) -> Tensor:
        """`cache`: the positions before x. Padding is at the end, where no earlier position looks."""
        if pattern is not None:
            raise RegardError("SSRU: each position reads all before it; a pattern that leaves some out needs attention")
        carried = Carried() if cache is None else cache
        assert isinstance(carried, Carried)
        gates, candidates = map_together(x, self.forget, self.candidate)
        precise = torch.promote_types(x.dtype, torch.float32)
        keep = gates.to(precise).sigmoid()
        states = scan(keep, (1 - keep) * candidates, carried.state)
        if watching(GATES):
            self._deliver(keep, carried)
        carried.state, carried.length = states[:, -1], carried.length + x.shape[1]
        return states.relu().to(x.dtype)

    def past(self, capacity: int = CAPACITY) -> Past:  # noqa: ARG002  the state has one size
        """The state before the first position."""
        return Carried()

    def _deliver(self, keep: Tensor, cache: Carried) -> None:
        """Keep the weights in `cache`: from one position to the next, those of all earlier positions are multiplied by
        f, and the new one gets 1 − f."""
        weights = keep.new_zeros(len(keep), 0, keep.shape[2]) if cache.weights is None else cache.weights  # (B, K, M)
        if weights.shape[1] != cache.length:
            raise RegardError("this state keeps no weights; begin recording before model.start(memory)")
        rows, end = [], cache.length + keep.shape[1]
        for now in keep.detach().unsqueeze(2).unbind(1):  # (B, 1, M)
            weights = torch.cat([weights * now, 1 - now], 1)
            rows.append(F.pad(weights.mean(-1), (0, end - weights.shape[1])))
        cache.weights = weights
        deliver(torch.stack(rows, 1).unsqueeze(1), part=GATES)


class Carried(Past):
    """c (B, M) after the first `length` positions; while they are recorded also the weight of each of these positions
    in it, (B, K, M)."""

    def __init__(self) -> None:
        self.length = 0
        self.state: Tensor | None = None
        self.weights: Tensor | None = None

    def reorder(self, rows: Tensor) -> Self:
        moved = type(self)()
        moved.length = self.length
        moved.state = None if self.state is None else self.state.index_select(0, rows)
        moved.weights = None if self.weights is None else self.weights.index_select(0, rows)
        return moved
