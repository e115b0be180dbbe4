"""Exact softmax attention over the tiles of a pattern, on a CPU: dot products, without a bias.

A few tiles of queries are computed at a time, so that their scores stay in the cache of a core:

    S = Q Kᵀ    P = softmax(S)    O = P V
    dV = Pᵀ dO    dP = dO Vᵀ    dS = P ∘ (dP − rowsum(P ∘ dP))    dQ = dS K    dK = dSᵀ Q

P is not kept for the backward pass but computed again, so that memory grows with the length alone.

T tiles of `size` positions   G tiles of queries at a time   C tiles of keys for each   D width of a head
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.algebra import Pattern, Span

CHUNK = 320_000  # scores that a thread computes at a time: more do not stay in its cache, fewer call torch too often


def attend_tiled(query: Tensor, key: Tensor, value: Tensor, *, pattern: Pattern, span: Span, size: int) -> Tensor:
    """softmax(Q Kᵀ) V over allowed pairs:  query (B, H, Q, D), key (B, H, K, D), value (B, H, K, Dv) → (B, H, Q, Dv)

    `pattern` is the same in all rows of the batch and states its blocks; `span` says which keys each row has. A query
    that may look at nothing gives zeros.
    """
    return _Tiled.apply(query, key, value, pattern, span, size)


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, query: Tensor, key: Tensor, value: Tensor, pattern: Pattern, span: Span, size: int
    ) -> Tensor:
        context.save_for_backward(query, key, value)
        context.plan = pattern, span, size
        space = _Space(query, size)
        out = space.zeros(query, value.shape[3])
        for b, low, high in span.rows(query.shape[0], key.shape[2]):
            chunks = _chunks(pattern, size, query.shape[2], key.shape[2], high)
            for h in range(query.shape[1]):
                q, k, v, o = (space.tiles(x[b, h]) for x in (query, key, value, out))
                for chunk in chunks:
                    if chunk.last < low or chunk.first >= high:
                        continue
                    weights = _weights(chunk, q[chunk.rows], chunk.keys(k, space, "keys"), low, high, space)
                    o[chunk.rows] = space.product("result", weights, chunk.keys(v, space, "values"))
        return out[:, :, : query.shape[2]].to(value.dtype)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        query, key, _ = inputs = context.saved_tensors
        pattern, span, size = context.plan
        space = _Space(query, size)
        gradients = [space.zeros(x, x.shape[3]) for x in inputs]
        for b, low, high in span.rows(query.shape[0], key.shape[2]):
            chunks = _chunks(pattern, size, query.shape[2], key.shape[2], high)
            for h in range(query.shape[1]):
                tiles = (space.tiles(x[b, h]) for x in (*inputs, above, *gradients))
                q, k, v, up, to_query, to_key, to_value = tiles
                for chunk in chunks:
                    if chunk.last < low or chunk.first >= high:
                        continue
                    some, over = q[chunk.rows], up[chunk.rows]
                    keys, values = chunk.keys(k, space, "keys"), chunk.keys(v, space, "values")
                    weights = _weights(chunk, some, keys, low, high, space)
                    chunk.add(to_value, space.product("sums", weights.transpose(1, 2), over))
                    slope = space.product("slope", over, values.transpose(1, 2))
                    torch._softmax_backward_data(slope, weights, -1, slope.dtype, grad_input=slope)
                    to_query[chunk.rows] = space.product("result", slope, keys)
                    chunk.add(to_key, space.product("sums", slope.transpose(1, 2), some))
        found = (gradient[:, :, : x.shape[2]].to(x.dtype) for gradient, x in zip(gradients, inputs, strict=True))
        return *found, None, None, None


class _Space:
    """Tensors in the precision of sums: buffers that one chunk after the other fills, and tiles of `size` positions."""

    def __init__(self, like: Tensor, size: int) -> None:
        self._dtype, self._size = torch.promote_types(like.dtype, torch.float32), size
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, *shape: int) -> Tensor:
        """The buffer called `name`, in this shape."""
        count = math.prod(shape)
        if name not in self._buffers or self._buffers[name].numel() < count:
            self._buffers[name] = torch.empty(count, dtype=self._dtype)
        return self._buffers[name][:count].view(shape)

    def product(self, name: str, left: Tensor, right: Tensor) -> Tensor:
        """(G, n, k), (G, k, m) → (G, n, m), in the buffer called `name`"""
        return torch.bmm(left, right, out=self.take(name, *left.shape[:2], right.shape[2]))

    def zeros(self, like: Tensor, width: int) -> Tensor:
        """(B, H, L, …) → (B, H, T·size, width)"""
        length = -(-like.shape[2] // self._size) * self._size
        return torch.zeros(*like.shape[:2], length, width, dtype=self._dtype)

    def tiles(self, x: Tensor) -> Tensor:
        """(L, D) → (T, size, D), filled up with zeros"""
        x = F.pad(x, (0, 0, 0, -x.shape[0] % self._size)) if x.shape[0] % self._size else x
        return x.to(self._dtype).unflatten(0, (-1, self._size))


@dataclass(frozen=True)
class _Chunk:
    """G tiles of queries with C tiles of keys for each."""

    rows: slice | Tensor  # which tiles of queries
    columns: Tensor  # (G·C,) which tiles of keys
    count: int  # C
    moving: int | None  # the first tile of keys, if all follow each other and move on by one with each tile of queries
    allowed: Tensor | None  # (1 or G, size, C·size), or None for every pair
    added: list[tuple[slice, Tensor]] | None  # −∞ for some columns of scores, if that is enough to apply `allowed`
    j: Tensor  # (G, 1, C·size) positions of the keys
    first: int  # the first of them
    last: int

    def keys(self, tiles: Tensor, space: _Space, name: str) -> Tensor:
        """The keys or values of each tile of queries, as a view if possible: (T, size, D) → (G, C·size, D)"""
        groups, (_, size, width) = len(self.columns) // self.count, tiles.shape
        if self.moving is not None:
            step, row, one = tiles.stride()
            start = tiles.storage_offset() + self.moving * step
            return tiles.as_strided((groups, self.count * size, width), (step, row, one), start)
        found = space.take(name, len(self.columns), size, width)
        return torch.index_select(tiles, 0, self.columns, out=found).view(groups, -1, width)

    def add(self, total: Tensor, sums: Tensor) -> None:
        """Add the sums (G, C·size, D) of these keys to total (T, size, D), where keys may occur more than once."""
        if self.moving is None:
            total.flatten(1).index_add_(0, self.columns, sums.view(len(self.columns), -1))
            return
        for number, part in enumerate(sums.unflatten(1, (self.count, -1)).unbind(1)):  # each (G, size, D)
            total[self.moving + number : self.moving + number + len(part)] += part


def _weights(chunk: _Chunk, query: Tensor, key: Tensor, low: int, high: int, space: _Space) -> Tensor:
    """softmax(Q Kᵀ) over allowed keys low ≤ j < high:  (G, size, D), (G, C·size, D) → (G, size, C·size)"""
    logits = space.product("weights", query, key.transpose(1, 2))
    if low <= chunk.first and chunk.last < high and chunk.added is not None:
        for columns, what in chunk.added:
            logits[:, :, columns] += what
        return torch.softmax(logits, -1, out=logits)
    refused = (chunk.j < low) | (chunk.j >= high)
    refused = refused if chunk.allowed is None else refused | ~chunk.allowed
    # The lowest number instead of −∞: a row with nothing allowed stays finite.
    logits.masked_fill_(refused, torch.finfo(logits.dtype).min)
    return torch.softmax(logits, -1, out=logits).masked_fill_(refused, 0.0)


def _chunks(pattern: Pattern, size: int, queries: int, keys: int, end: int) -> list[_Chunk]:
    """The chunks of a row of the batch that has `end` of the keys."""
    if pattern.counts_keys:
        keys = min(keys, -(-end // pattern.grain) * pattern.grain)
    return _remembered_chunks(pattern, size, queries, keys, torch.get_num_threads() * CHUNK)


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)  # tensors made in inference mode could not be used in training later
def _remembered_chunks(pattern: Pattern, size: int, queries: int, keys: int, scores: int) -> list[_Chunk]:
    """The chunks that cover the pattern: tiles of queries that have equally many tiles of keys, a few at a time."""
    tiles = pattern.blocks(size, queries, keys)
    if tiles is None:
        tiles = torch.ones(-(-queries // size), -(-keys // size), dtype=torch.bool)
    counts = tiles.sum(1)
    chunks: list[_Chunk] = []
    for count in counts[counts > 0].unique().tolist():
        rows = (counts == count).nonzero().squeeze(1)
        columns = tiles[rows].nonzero()[:, 1].view(-1, count)
        most = max(1, scores // (size * size * count))
        for part in _alike(rows, columns):
            for some, these in zip(rows[part].split(most), columns[part].split(most), strict=True):
                chunks.append(_chunk(pattern, size, queries, keys, some, these))
    return chunks


def _alike(rows: Tensor, columns: Tensor) -> Iterator[Tensor]:
    """Runs of tiles (R,) whose keys (R, C) move on with the queries, each by itself, and then the others together."""
    apart = columns - rows.unsqueeze(1)
    joined = (apart[1:] == apart[:-1]).all(1) & (rows.diff() == 1) & (columns[1:].diff(dim=1) == 1).all(1)
    runs = F.pad(~joined, (1, 0)).cumsum(0)
    lengths = runs.bincount()
    long = lengths[runs] > 1
    for run in (lengths > 1).nonzero().squeeze(1):
        yield runs == run
    if not long.all():
        yield ~long


def _chunk(pattern: Pattern, size: int, queries: int, keys: int, rows: Tensor, columns: Tensor) -> _Chunk:
    """Tiles of queries (G,) with tiles of keys (G, C)."""
    i = (rows.unsqueeze(1) * size + torch.arange(size)).clamp(max=queries - 1).unsqueeze(2)  # (G, size, 1)
    j = (columns.unsqueeze(2) * size + torch.arange(size)).flatten(1).unsqueeze(1)  # (G, 1, C·size)
    allowed = pattern.allows(i, j.clamp(max=keys - 1), keys).expand(len(rows), size, j.shape[2])
    allowed = (allowed[:1] if (allowed == allowed[:1]).all() else allowed).clone()
    straight = bool((rows.diff() == 1).all())
    following = columns[0, 0] + torch.arange(len(rows)).unsqueeze(1) + torch.arange(columns.shape[1])
    return _Chunk(
        rows=slice(int(rows[0]), int(rows[-1]) + 1) if straight else rows,
        columns=columns.flatten(),
        count=columns.shape[1],
        moving=int(columns[0, 0]) if straight and torch.equal(columns, following) else None,
        allowed=None if allowed.all() else allowed,
        added=_added(allowed, size),
        j=j,
        first=int(j.min()),
        last=int(j.max()),
    )


def _added(allowed: Tensor, size: int) -> list[tuple[slice, Tensor]] | None:
    """What to add to the scores, tile of keys by tile; None if a query may look at nothing, whose softmax were NaN."""
    if not allowed.any(-1).all():
        return None
    starts = range(0, allowed.shape[2], size)
    parts = ((slice(start, start + size), allowed[:, :, start : start + size]) for start in starts)
    return [(at, torch.zeros(part.shape).masked_fill_(~part, -torch.inf)) for at, part in parts if not part.all()]
