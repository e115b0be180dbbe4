"""Positions as distances, for attention that looks back on states kept from an earlier segment.

A state that is kept has no fixed number: what is now position 3 was position 67 of the segment before. Its distance
from a query is known all the same, so that scores depend on distances alone.

B batch  H heads  Q queries  K keys  P distances  D width of a head  M width of the model
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.positions import Position, Sinusoidal
from regard.kernels.linear import Linear


class Relative(Position):
    """Every distance has a sinusoidal vector; content and distance each have a bias of their own, u and v.

        score_ij = ((q_i + u)ᵀ k_j + (q_i + v)ᵀ W_R R_{i−j}) / √D                           Dai 2019, section 3.3

    R_d (M,) are sines and cosines of d, W_R is learned, u and v (H, D) are learned in every layer. With `clamp`,
    distances beyond it count as `clamp`. The score must be the scaled dot product, and keys after a query are masked:
    their distance has no vector here and counts as 0.
    """

    def __init__(self, width: int, *, heads: int, clamp: int | None = None) -> None:
        super().__init__()
        self.clamp = clamp
        self.project = Linear(width, width, bias=False)
        self.content = nn.Parameter(torch.zeros(heads, width // heads))
        self.distance = nn.Parameter(torch.zeros(heads, width // heads))
        self.waves = Sinusoidal(halves=True)
        self._known: tuple[tuple[object, ...], Tensor] | None = None

    def on_heads(self, query: Tensor, key: Tensor, at: Tensor, key_at: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        return query + self.content.unsqueeze(1).to(query.dtype), key

    def on_scores(self, query: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The term with R; `query` is (q + u) / √D, as the score compares it."""
        own = ((self.distance - self.content) / math.sqrt(query.shape[-1])).to(query.dtype)
        query = query + own.view(-1, *[1] * (query.dim() - 3), query.shape[-1])  # (q + v) / √D
        if i.dim() == 2 and j.shape[0] == 1:  # every pair of a block of queries that ends with the last key
            return relative_shift(query @ self.table(j.shape[1]).mT, keys=j.shape[1])
        distance = (i - j).clamp(min=0)  # (*rows, columns)
        table = self.table(int(distance.max()) + 1).flip(1)  # (H, P, D)
        by_distance = (query.flatten(2, -2) @ table.mT).unflatten(2, query.shape[2:-1])
        return by_distance.gather(-1, distance.expand(*query.shape[:-1], distance.shape[-1]))

    def table(self, count: int) -> Tensor:
        """W_R R_d for the distances d = count − 1, …, 1, 0: (H, count, D).

        Without gradients it is computed once for many steps: it is kept until the weights change.
        """
        weight = self.project.weight
        if torch.is_grad_enabled() or self.training:
            return self._table(count)
        state = (id(weight), weight._version, weight.data_ptr(), weight.dtype)
        if self._known is None or self._known[0] != state or self._known[1].shape[1] < count:
            self._known = state, self._table(1 << (count - 1).bit_length())
        return self._known[1][:, -count:]

    def _table(self, count: int) -> Tensor:
        weight = self.project.weight
        at = torch.arange(count - 1, -1, -1, device=weight.device).clamp(0, self.clamp)
        waves = self.waves.on_input(weight.new_zeros(count, weight.shape[1]), at)
        return self.project(waves).unflatten(-1, self.content.shape).transpose(0, 1)  # (P, M) → (H, P, D)


def relative_shift(by_distance: Tensor, *, keys: int) -> Tensor:
    """From a column for each distance to a column for each key, without an index: (…, Q, P) → (…, Q, K)

        y_ij = x_{i, Q−1−i+j}                                                               Dai 2019, appendix B

    The columns of x are distances in falling order, the first that of the last query from the first key. The queries
    are the last Q of K positions. With P = K columns, which end with distance 0, keys after a query get numbers that
    mean nothing; with P = Q + K − 1 columns, which end with the distance 1 − Q, every pair is right.
    """
    queries, columns = by_distance.shape[-2:]
    if columns == keys:
        by_distance, columns = F.pad(by_distance, (0, 1)), columns + 1
    flat = by_distance.flatten(-2)[..., queries - 1 : queries * columns - 1]
    return flat.unflatten(-1, (queries, columns - 1))[..., :keys]
