"""Linformer: keys and values of n positions are projected to k, so that the cost grows with n·k.

    out = softmax(Q (E K)ᵀ / √D) (F V)        E, F (k, n) are learned                            Wang 2020, 4

A sequence of length n uses the first n columns of E and F; padding is set to zero before the projection, so that it
has no effect. Weights are those of the k projected keys, which are mixtures of positions.

B batch  H heads  Q queries  K keys  D width of a head  M width of the model
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import Past, Projected
from regard.attention.exact import Bias
from regard.attention.formula import attend_projected
from regard.attention.heads import MultiHead
from regard.attention.patterns import All, Padding, Pattern
from regard.attention.positions import Position
from regard.attention.recorder import deliver, watching
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

    def forward(
        self,
        x: Tensor,
        memory: Tensor | Projected | None = None,
        *,
        pattern: Pattern | None = None,
        cache: Past | None = None,
    ) -> Tensor:
        if memory is not None or cache is not None:
            raise RegardError(
                "Linformer looks at x itself, all of it; take MultiHead or Performer for a memory or a cache"
            )
        if len(self.keys_to) > 1 or type(self.position).on_heads is not Position.on_heads:
            return super().forward(x, pattern=pattern)
        # one projection for all heads: E (x W) = (E x) W, and E x has few rows
        hidden = self._hidden(x, x.shape[1], self.pattern if pattern is None else self.pattern & pattern)
        mixed = self._mixed(x, self.keys_to, hidden)
        keys = self._split(_linear(self.key, mixed), self.heads)
        mixed = mixed if self.values_to is None else self._mixed(x, self.values_to, hidden)
        values = self._split(_linear(self.value, mixed), self.heads)
        query = self._split(self.query(x), self.heads)
        result = self._attend(self.score.queries(query), self.score.keys(keys), values)
        return self.output(result.transpose(1, 2).flatten(2))

    def look(self, query: Tensor, new: Projected, cache: Past | None, *, pattern: Pattern, bias: Bias | None) -> Tensor:
        if bias is not None:
            raise RegardError(
                "Linformer never computes the score of a pair, so nothing can be added to it; "
                'choose position = "sinusoidal", "learned" or "rotary"'
            )
        assert cache is None, "forward refuses it"
        hidden = self._hidden(query, query.shape[2], pattern)
        tables = self.keys_to, self.keys_to if self.values_to is None else self.values_to
        if hidden is not None:
            new = Projected(*(x.masked_fill(hidden[:, None, :, None], 0.0) for x in new))
        keys, values = (self._projected(x, table) for table, x in zip(tables, new, strict=True))
        return self._attend(query, keys, values)

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """query (B, H, Q, D), projected keys and values (B, H, k, D) → (B, H, Q, D)"""
        if not watching():
            return attend_projected(query, keys, values, score=self.score)
        weights = self.score.matrix(query, keys).softmax(-1)  # (B, H, Q, k)
        deliver(weights, vectors=(query, keys), columns="projected")
        return weights @ values

    def _hidden(self, x: Tensor, length: int, pattern: Pattern) -> Tensor | None:
        """True where a key is padding (B, K), None for nowhere; an input or a pattern that cannot be is refused."""
        if length > self.maximum:
            raise RegardError(
                f"Linformer: the input has {length} positions, but the projections are made for at most "
                f"{self.maximum}; shorten it, or train with a larger maximum"
            )
        if isinstance(pattern, All):
            return None
        if not isinstance(pattern, Padding):
            raise RegardError(
                f"Linformer mixes all positions into its keys, so the pattern {type(pattern).__name__} cannot be; "
                "take Performer for a causal pattern, and MultiHead, which is exact, for any other"
            )
        pattern.check(len(x), self.heads, length, length)
        return torch.arange(length, device=x.device) >= pattern.lengths.to(x.device).unsqueeze(1)

    @staticmethod
    def _projected(x: Tensor, table: Tensor) -> Tensor:
        """E x of x (B, H, K, D) → (B, H, k, D). One table for all heads is one product with the heads side by side."""
        table = table[:, :, : x.shape[2]]
        if len(table) > 1:
            return table @ x
        return (table @ x.transpose(1, 2).flatten(2)).unflatten(2, x.shape[1::2]).transpose(1, 2)

    @staticmethod
    def _mixed(x: Tensor, table: Tensor, hidden: Tensor | None) -> Mixed:
        """E x (B, k, M), with zeros for x where it is hidden, and E 1 (B or 1, k, 1), which the bias is mixed by."""
        table = table[:, :, : x.shape[1]]
        if hidden is None:
            return table @ x, table.sum(-1, keepdim=True)
        return table @ x.masked_fill(hidden.unsqueeze(-1), 0.0), table @ (~hidden).to(x.dtype).unsqueeze(-1)


Mixed = tuple[Tensor, Tensor]


def _linear(linear: nn.Linear, mixed: Mixed) -> Tensor:
    """E (x Wᵀ + 1 bᵀ) of E x and E 1."""
    result = F.linear(mixed[0], linear.weight)
    return result if linear.bias is None else result + mixed[1] * linear.bias
