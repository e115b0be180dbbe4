"""XLNet's attention: scores by content, distance and segment, and two streams that share every weight.

    score(i, j) = ((q_i + b_c)·k_j + (q_i + b_d)·W^R r_{i−j} + (q_i + b_s)·s_ij) / √D             Yang 2019; Dai 2019

r_δ is the sinusoid of the distance δ, and s_ij one of two vectors: i and j are of the same segment, or are not. The
content stream has a query for each token, made of the token itself. The query stream has a query for each place whose
token is to be predicted, made of the place alone. Keys and values of both come from the content stream.

B batch  H heads  Q queries  K keys  C distances  D width of a head  M width of the model
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.formula import attend
from regard.attention.patterns import Matrix, Padding, Pattern
from regard.errors import RegardError
from regard.kernels.linear import Linear, map_together

MEMORY = -1  # the rank of memory in an order
DEVIATION = 0.02  # of the first biases and segments, as of all weights of XLNet


class Seen(NamedTuple):
    """What both streams of a layer look at: keys and values (B, H, K, D), and the vectors of distances (H, C, D)."""

    keys: Tensor
    values: Tensor
    distances: Tensor


@dataclass(frozen=True)
class Standpoint:
    """Where the queries of a stream stand.

    `pattern` are the keys that each may look at; `other` (B, Q, K) tells which keys are of another segment, if segments
    are told apart. `places` (B, Q) are the places of the query stream, counted from the first token that is no memory;
    the content stream has none: its queries are all tokens that are no memory.
    """

    pattern: Pattern
    other: Tensor | None
    places: Tensor | None

    @classmethod
    def of(
        cls,
        lengths: Tensor,
        segments: Tensor | None = None,
        order: Tensor | None = None,
        places: Tensor | None = None,
        *,
        memory: int = 0,
    ) -> Self:
        """The standpoint of all tokens, or of some places, among tokens with lengths (B,), segments (B, L) and ranks in
        an order (B, L). All may look at the `memory` positions before them, which count as segment 0."""

        def facing(x: Tensor, before: int) -> tuple[Tensor, Tensor]:
            """x (B, L) of the queries, and of the keys with `before` for the memory: (B, Q, 1), (B, 1, K)"""
            own = x if places is None else x.gather(1, places)
            return own.unsqueeze(2), F.pad(x, (memory, 0), value=before).unsqueeze(1)

        pattern: Pattern = Padding(lengths + memory)
        if order is not None:
            rank, ranks = facing(order, MEMORY)
            pattern = pattern & Matrix(ranks <= rank if places is None else ranks < rank)
        if segments is None:
            return cls(pattern, None, places)
        segment, others = facing(segments, 0)
        return cls(pattern, segment != others, places)


class TwoStream(nn.Module):
    """x (B, Q, M), seen from `look_at` → (B, Q, M).   The streams' weights are recorded as `content` and `query`."""

    def __init__(self, width: int, *, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise RegardError(f"heads={heads} does not divide width={width}; choose a number of heads that does")
        self.heads = heads
        self.queries, self.keys, self.values = (Linear(width, width, bias=False) for _ in range(3))
        self.distances, self.output = (Linear(width, width, bias=False) for _ in range(2))
        self.content_bias, self.distance_bias, self.segment_bias = (
            nn.Parameter(torch.empty(heads, width // heads).normal_(std=DEVIATION)) for _ in range(3)
        )
        pair = torch.empty(2, heads, width // heads)  # of the same segment, of another
        self.segments = nn.Parameter(pair.normal_(std=DEVIATION))
        self.content, self.query = Stream(), Stream()

    def look_at(self, states: Tensor, sinusoids: Tensor) -> Seen:
        """states (B, K, M) of memory and tokens, sinusoids (C, M) of the distances of `distances_between`"""
        keys, values = (self._split(x) for x in map_together(states, self.keys, self.values))
        return Seen(keys, values, self._split(self.distances(sinusoids).unsqueeze(0))[0])

    def forward(self, x: Tensor, seen: Seen, stand: Standpoint) -> Tensor:
        query = self._split(self.queries(x))  # (B, H, Q, D)
        away = (query + self.distance_bias.unsqueeze(1)) @ seen.distances.transpose(1, 2)  # (B, H, Q, C)
        bias = by_keys(away, seen.keys.shape[2], stand.places)
        if stand.other is not None:
            same, other = ((query + self.segment_bias.unsqueeze(1)) @ self.segments.permute(1, 2, 0)).split(1, dim=-1)
            bias = bias + torch.where(stand.other.unsqueeze(1), other, same)
        stream = self.content if stand.places is None else self.query
        result = stream(query + self.content_bias.unsqueeze(1), seen, bias / query.shape[-1] ** 0.5, stand.pattern)
        return self.output(result.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, L, H·D) → (B, H, L, D)


class Stream(nn.Module):
    """The one formula under a name of its own, so that the weights of each stream are recorded apart."""

    def forward(self, query: Tensor, seen: Seen, bias: Tensor, pattern: Pattern) -> Tensor:
        return attend(query, seen.keys, seen.values, pattern=pattern, bias=bias)


def distances_between(queries: int, keys: int, *, device: torch.device) -> Tensor:
    """The distances between the last `queries` of `keys` positions and all positions, the largest first: (C,)

    The first is one more than the largest: `by_keys` needs as many columns as there are queries and keys.
    """
    return torch.arange(keys, -queries, -1, device=device)


def sinusoids(distances: Tensor, width: int) -> Tensor:
    """r_δ = [sin(δ ω) ; cos(δ ω)],  ω_n = 10000^(−2n/M): distances (C,) → (C, M), in double precision"""
    rates = 10000.0 ** -(torch.arange(0, width, 2, device=distances.device).double() / width)
    angles = distances.unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def by_keys(scores: Tensor, keys: int, places: Tensor | None) -> Tensor:
    """The scores of queries for distances as their scores for keys: (B, H, Q, C) → (B, H, Q, K)

    The row of place i begins in column L − i, where L is the number of tokens: C = K + L. Without places, the rows are
    cut out of the flat scores, each one column further to the left (Dai 2019, appendix B).
    """
    tokens = scores.shape[3] - keys
    if places is None:
        return scores.flatten(2)[..., tokens:].unflatten(2, (tokens, -1))[..., :keys]
    columns = (tokens - places).unsqueeze(-1) + torch.arange(keys, device=scores.device)  # (B, Q, K)
    return scores.gather(3, columns.unsqueeze(1).expand(*scores.shape[:3], keys))
