"""Linformer: keys and values of n positions are projected to k, so that the cost grows with n·k.

    out = softmax(Q (E K)ᵀ / √D) (F V)        E, F (k, n) are learned                            Wang 2020, 4

A sequence of length n uses the first n columns of E and F; padding is set to zero before the projection, so that it
has no effect. Weights are those of the k projected keys, which are mixtures of positions.

B batch  H heads  Q queries  K keys  D width of a head  M width of the model
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import Past, Projected
from regard.attention.exact import Bias
from regard.attention.heads import MultiHead
from regard.attention.patterns import Pattern
from regard.attention.positions import Position
from regard.errors import RegardError

Projections = Literal["per_head", "shared", "key_value"]
"""Which projections are one and the same: none, those of all heads, or those of all heads and of keys and values."""


class Linformer(MultiHead):
    """MultiHead over itself with keys and values projected to `rank` positions.   x (B, Q, M) → (B, Q, M)"""

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        maximum: int,
        rank: int,
        projections: Projections = "shared",
        position: Position | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__(width, heads=heads, position=position, bias=bias)
        self.maximum = maximum
        own = heads if projections == "per_head" else 1
        self.keys_to = nn.Parameter(torch.empty(own, rank, maximum))
        self.values_to = None if projections == "key_value" else nn.Parameter(torch.empty(own, rank, maximum))
        for table in (self.keys_to, self.values_to):
            if table is not None:
                nn.init.normal_(table, std=rank**-0.5)

    def look(self, query: Tensor, new: Projected, cache: Past | None, *, pattern: Pattern, bias: Bias | None) -> Tensor:
        raise RegardError("Linformer is not computed yet")
