"""Layers on sets: attention that treats all elements alike, and poolings that forget their order (Lee 2019, 3).

    MAB(X, Y) = norm(H + FF(H)),   H = norm(X + MultiHead(X, Y))
    SAB(X)    = MAB(X, X)                          cost n²
    ISAB(X)   = MAB(X, MAB(I, X))                  cost n · m; I are m learned vectors
    PMA(X)    = MAB(s, X)                          s is one learned vector

B batch  N elements of the largest set  M width
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.patterns import Padding, Pattern
from regard.attention.recorder import deliver, watching
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import FeedForward

NormOfSets = Literal["layer", "none"]


class AttentionBlock(nn.Module):
    """MAB: x (B, Q, M) looks at y (B, K, M) → (B, Q, M). With norm="none" both norms are left out."""

    def __init__(self, width: int, *, heads: int, norm: NormOfSets = "layer", dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = MultiHead(width, heads=heads)
        self.feed_forward = FeedForward(width, hidden=width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) if norm == "layer" else nn.Identity() for _ in range(2))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, y: Tensor, *, pattern: Pattern | None = None) -> Tensor:
        seen = self.norms[0](x + self.dropout(self.attention(x, y, pattern=pattern)))
        return self.norms[1](seen + self.dropout(self.feed_forward(seen)))


class SetBlock(nn.Module):
    """SAB: every element looks at every element. (B, N, M) → (B, N, M); permuting the elements permutes the result."""

    def __init__(self, width: int, *, heads: int, norm: NormOfSets = "layer", dropout: float = 0.0) -> None:
        super().__init__()
        self.block = AttentionBlock(width, heads=heads, norm=norm, dropout=dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.block(x, x, pattern=Padding(lengths))


class InducedBlock(nn.Module):
    """ISAB: `inducing` learned vectors look at the elements, and the elements look at the result. As SetBlock."""

    def __init__(
        self, width: int, *, heads: int, inducing: int, norm: NormOfSets = "layer", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.points = nn.Embedding(inducing, width)
        nn.init.xavier_uniform_(self.points.weight)
        self.gather = AttentionBlock(width, heads=heads, norm=norm, dropout=dropout)
        self.spread = AttentionBlock(width, heads=heads, norm=norm, dropout=dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        points = self.points.weight.expand(len(x), -1, -1)  # (B, I, M)
        return self.spread(x, self.gather(points, x, pattern=Padding(lengths)))


class AttentionPool(nn.Module):
    """PMA: one learned vector looks at the elements. (B, N, M) → (B, M)"""

    def __init__(self, width: int, *, heads: int, norm: NormOfSets = "layer", dropout: float = 0.0) -> None:
        super().__init__()
        self.seed = nn.Embedding(1, width)
        nn.init.xavier_uniform_(self.seed.weight)
        self.block = AttentionBlock(width, heads=heads, norm=norm, dropout=dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        seed = self.seed.weight.expand(len(x), -1, -1)  # (B, 1, M)
        return self.block(seed, x, pattern=Padding(lengths)).squeeze(1)


class Pool(nn.Module):
    """The sum, mean or maximum of the elements, number by number. (B, N, M) → (B, M)

    Its weights, for those who record them, are the shares that the elements have in the result: of the sum or mean
    Σ_d |x_id| / Σ_jd |x_jd|; of the maximum the share of the M numbers that are the element's. Equal elements share.
    """

    def __init__(self, how: Literal["sum", "mean", "max"]) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        padding = (torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)).unsqueeze(-1)  # (B, N, 1)
        x = x.masked_fill(padding, -torch.inf if self.how == "max" else 0.0)
        pooled = x.amax(1) if self.how == "max" else x.sum(1)
        if watching():
            deliver(self._shares(x, pooled).view(len(x), 1, 1, -1))
        return pooled / lengths.unsqueeze(1) if self.how == "mean" else pooled

    def _shares(self, x: Tensor, pooled: Tensor) -> Tensor:
        """(B, N, M), (B, M) → (B, N), which sum to one"""
        if self.how == "max":
            won = (x == pooled.unsqueeze(1)).float()
            return (won / won.sum(1, keepdim=True)).mean(-1)
        size = x.abs().sum(-1)
        return size / size.sum(1, keepdim=True)
