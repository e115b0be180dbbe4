"""Exact softmax attention: one softmax, four memory layouts.

    dense        every pair                                         time and memory Q·K (memory Q where torch fuses it)
    blocks       tiles of the pattern that hold an allowed pair     Q·w for a window of width w (memory Q in tiled.py)
    neighbours   a small table of keys for each query               Q·w
    edges        the pairs of a list                                E

Each takes the results of `score.queries` and `score.keys`, and gives zeros, forward and backward, for a query that may
look at nothing. While weights are recorded, each computes its output from the weights that it delivers.
Only `dense` takes keys and values with fewer heads than the queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.graph import attend_graph
from regard.attention.patterns import All, Causal, Edges, Pattern, Shifted
from regard.attention.recorder import deliver, watched_head, watching
from regard.attention.scores import Score
from regard.attention.short import FEW_KEYS, REGISTER, attend_short
from regard.attention.tiled import attend_tiled

# A bias is added to the scores: a tensor that broadcasts to (B, H, Q, K), or a function of positions,
# (query (B, H, *rows, D), i (*rows, 1), j broadcastable to (*rows, columns)) → broadcastable to (B, H, *rows, columns).
Bias = Tensor | Callable[[Tensor, Tensor, Tensor], Tensor | None]


def dense(query: Tensor, key: Tensor, value: Tensor, *, score: Score, pattern: Pattern, bias: Bias | None) -> Tensor:
    """Every pair: query (B, H, Q, D), key (B, H or fewer, K, D), value (B, H or fewer, K, Dv) → (B, H, Q, Dv)"""
    queries, keys, device = query.shape[2], key.shape[2], query.device
    if bias is not None and not isinstance(bias, Tensor):
        i = torch.arange(queries, device=device).unsqueeze(1)
        bias = bias(query, i, torch.arange(keys, device=device).unsqueeze(0))
    plain = isinstance(pattern, Causal) and bias is None and score.dot and not watching()
    if plain and not _few(query, key) and not _hides_nan(query, key):
        grouped = _grouped(query, key)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=1.0, enable_gqa=grouped)
    allowed = None if _sees_all(pattern, keys) else pattern.dense(queries, keys, device=device)
    heads = query.shape[1]
    out, weights = _attend(query, key, value, score, allowed, bias, _Heads(heads, axis=-3))
    if weights is not None:
        deliver(weights, vectors=(query, key) if score.dot else None, head=watched_head())
    return out


def blocks(
    query: Tensor, key: Tensor, value: Tensor, *, score: Score, pattern: Pattern, bias: Bias | None, size: int
) -> Tensor:
    """Only the tiles of size × size in which the pattern allows something; shapes as in `dense`."""
    spans = pattern.spans() if score.dot and bias is None and not watching() else None
    if spans is not None and query.device.type == "cpu" and query.dtype == key.dtype == value.dtype:
        uniform, span = spans
        return attend_tiled(query, key, value, pattern=uniform, span=span, size=size)
    queries, keys = query.shape[2], key.shape[2]
    query_tiles, key_tiles, value_tiles = (_tile(x, size) for x in (query, key, value))
    out = value.new_zeros(query_tiles.shape[:3] + value.shape[-1:])
    heads, shown = _Heads(query.shape[1], axis=-4), []
    for bucket in _buckets(pattern, size, queries, keys, query.device):
        some = query_tiles[:, bucket.rows]  # (B·H, R, size, D)
        result, weights = _attend(
            some,
            key_tiles[:, bucket.columns].flatten(2, 3),  # (B·H, R, C·size, D)
            value_tiles[:, bucket.columns].flatten(2, 3),
            score,
            _fold_heads(bucket.allowed, query),
            _fold_heads(_bias_at(bias, some.unflatten(0, query.shape[:2]), bucket.i, bucket.j), query),
            heads,
        )
        out = out.index_copy(1, bucket.rows, result.to(out.dtype))
        if weights is not None:
            shown.append(_sparse(weights, bucket.i, bucket.j, bucket.allowed, query, keys))
    if shown:
        deliver(sum(shown[1:], start=shown[0]).coalesce(), head=watched_head())
    return out.flatten(1, 2)[:, :queries].unflatten(0, query.shape[:2])


def neighbours(
    query: Tensor, key: Tensor, value: Tensor, *, score: Score, pattern: Pattern, bias: Bias | None, table: Tensor
) -> Tensor:
    """Each query with the keys that `table` (Q, W) names; shapes as in `dense`."""
    i = torch.arange(query.shape[2], device=query.device).view(-1, 1, 1)
    j = table.clamp(min=0).to(query.device).unsqueeze(1)  # (Q, 1, W)
    allowed = pattern.allows(i, j, key.shape[2]) & (table >= 0).to(query.device).unsqueeze(1)
    some = query.flatten(0, 1).unsqueeze(2)  # (B·H, Q, 1, D)
    out, weights = _attend(
        some,
        key.flatten(0, 1)[:, j.squeeze(1)],  # (B·H, Q, W, D)
        value.flatten(0, 1)[:, j.squeeze(1)],
        score,
        _fold_heads(allowed, query),
        _fold_heads(_bias_at(bias, some.unflatten(0, query.shape[:2]), i, j), query),
        _Heads(query.shape[1], axis=-4),
    )
    if weights is not None:
        deliver(_sparse(weights, i, j, allowed, query, key.shape[2]), head=watched_head())
    return out.squeeze(2).unflatten(0, query.shape[:2])


def edges(
    query: Tensor, key: Tensor, value: Tensor, *, score: Score, pattern: Pattern, bias: Bias | None, pairs: Tensor
) -> Tensor:
    """Only the pairs (E, 2) of a list, each once; shapes as in `dense`."""
    queries, keys = query.shape[2], key.shape[2]
    if isinstance(pattern, Edges) and bias is None:
        return attend_graph(query, key, value, score=score, cells=pattern.cells(queries, keys))
    i, j = pairs.to(query.device).unbind(1)
    some = query[:, :, i]  # (B, H, E, D)
    logits = score.compare(some, key[:, :, j])  # (B, H, E)
    extra = _bias_at(bias, some, i.unsqueeze(1), j.unsqueeze(1))  # (B, H, E, 1)
    if extra is not None:
        logits = logits + extra.squeeze(-1)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # sums over many edges need the precision
    allowed = pattern.allows(i, j, keys).expand_as(logits)
    lowest = torch.finfo(logits.dtype).min
    logits = logits.masked_fill(~allowed, lowest)
    rows = i.expand_as(logits)
    highest = logits.new_full((*logits.shape[:2], queries), lowest).scatter_reduce(2, rows, logits.detach(), "amax")
    mass = (logits - highest.gather(2, rows)).exp() * allowed
    total = mass.new_zeros(highest.shape).scatter_add(2, rows, mass)
    weights = mass / total.masked_fill(total == 0, 1.0).gather(2, rows)
    heads = _Heads(query.shape[1], axis=-3)
    if heads.watched:
        pair = heads.part(weights.unsqueeze(-1)).flatten(0, 1).unsqueeze(-1)  # (B·H, E, 1, 1)
        places = i.view(-1, 1, 1), j.view(-1, 1, 1)
        deliver(_sparse(pair, *places, allowed[..., None, None], query, keys), head=watched_head())
    out = weights.new_zeros(*query.shape[:3], value.shape[-1])
    return out.index_add(2, i, weights.unsqueeze(-1) * value[:, :, j]).to(value.dtype)


@dataclass(frozen=True)
class _Heads:
    """The axis of the heads in a tensor (−4 holds batch and heads together), and which heads are watched."""

    count: int
    axis: int

    @property
    def watched(self) -> range:
        """The heads whose weights are being recorded: none, one, or all."""
        if not watching():
            return range(0)
        one = watched_head()
        return range(self.count) if one is None else range(self.count)[one : one + 1]

    def part(self, x: Tensor) -> Tensor:
        """The watched heads of a tensor; a tensor that broadcasts over heads is returned whole."""
        if x.dim() < -self.axis or x.shape[self.axis] == 1:
            return x
        index = (..., slice(*self._range()), slice(None), slice(None))
        return x[index if self.axis == -3 else (*index, slice(None))]

    def replaced(self, x: Tensor, part: Tensor) -> Tensor:
        """x with the watched heads replaced by `part`."""
        start, end, step = self._range()
        return x.slice_scatter(part, self.axis, start, end, step)

    def _range(self) -> tuple[int, int | None, int]:
        watched = self.watched
        if self.axis == -3:
            return watched.start, watched.stop, 1
        return watched.start, None, self.count // len(watched)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Score,
    allowed: Tensor | None,
    bias: Tensor | None,
    heads: _Heads,
) -> tuple[Tensor, Tensor | None]:
    """One softmax over the last axis of (X, Y, Q, K): the output, and the weights of the watched heads."""
    watched = len(heads.watched)
    if score.dot and watched < heads.count:
        out = _fused(query, key, value, allowed, bias)
        if not watched:
            return out, None
        key, value = _ungrouped(query, key), _ungrouped(query, value)
        parts = heads.part(query), heads.part(key), heads.part(value)
        allowed, bias = (None if x is None else heads.part(x) for x in (allowed, bias))
        result, weights = _weighed(*parts, score, allowed, bias)
        return heads.replaced(out, result.to(out.dtype)), weights
    key, value = _ungrouped(query, key), _ungrouped(query, value)
    out, weights = _weighed(query, key, value, score, allowed, bias)
    return out, heads.part(weights) if watched else None


def _weighed(
    query: Tensor, key: Tensor, value: Tensor, score: Score, allowed: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The output, computed from the weights, and the weights."""
    weights = masked_softmax(score.matrix(query, key), allowed, bias)
    return weights @ value, weights


def _fused(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, bias: Tensor | None) -> Tensor:
    """The output alone; no weights are returned."""
    mask = allowed
    if bias is not None:
        bias = bias.to(query.dtype)
        mask = bias if allowed is None else torch.where(allowed, bias, -torch.inf)
    if _few(query, key) and not (bias is not None and bias.requires_grad):
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -torch.inf)
        return attend_short(query, key, value, mask)
    if mask is None and _hides_nan(query, key):
        mask = query.new_zeros(1, key.shape[2])
    if mask is not None:
        mask = mask[(None,) * (4 - mask.dim())]  # torch does not fuse masks of three dimensions
    grouped = _grouped(query, key)
    return F.scaled_dot_product_attention(query, key, value, mask, scale=1.0, enable_gqa=grouped)


def masked_softmax(logits: Tensor, allowed: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """softmax(logits + bias) over the last axis where `allowed`, zero elsewhere, in a whole row if nothing is allowed.

    A bias of −∞ forbids as well.
    """
    if bias is not None:
        logits = logits + bias.to(logits.dtype)
        finite = bias > -torch.inf
        allowed = finite if allowed is None else allowed & finite
    if allowed is None:
        return logits.softmax(-1)
    # The lowest number instead of −∞: a row with nothing allowed stays finite, and so do its gradients.
    return logits.masked_fill(~allowed, torch.finfo(logits.dtype).min).softmax(-1).masked_fill(~allowed, 0.0)


@dataclass(frozen=True)
class _Bucket:
    """Query tiles that look at about equally many key tiles, so that they can be computed together."""

    rows: Tensor  # (R,) which query tiles
    columns: Tensor  # (R, C) the key tiles of each
    i: Tensor  # (R, size, 1) positions of the queries
    j: Tensor  # (R, 1, C·size) positions of the keys
    allowed: Tensor  # (R, size, C·size), or with (B, 1 or H) in front


def _buckets(pattern: Pattern, size: int, queries: int, keys: int, device: torch.device) -> list[_Bucket]:
    if pattern.holds_tensors():  # padding changes with every batch, so caching it would not help
        return _make_buckets(pattern, size, queries, keys, device)
    return _remembered_buckets(pattern, size, queries, keys, device)


@torch.inference_mode(mode=False)  # tensors made in inference mode could not be used in training later
def _make_buckets(pattern: Pattern, size: int, queries: int, keys: int, device: torch.device) -> list[_Bucket]:
    tiles = pattern.blocks(size, queries, keys)
    if tiles is None:
        tiles = torch.ones(-(-queries // size), -(-keys // size), dtype=torch.bool)
    tiles[0, 0] |= not tiles.any()  # at least one tile, so that weights can be recorded and gradients exist (as zeros)
    counts = tiles.sum(1)
    buckets = []
    while (widest := int(counts.max())) > 0:
        rows = (2 * counts >= widest).nonzero().squeeze(1)
        found, columns = tiles[rows].to(torch.uint8).topk(widest, dim=1)
        i = (rows.unsqueeze(1) * size + torch.arange(size)).unsqueeze(2)
        j = (columns.unsqueeze(2) * size + torch.arange(size)).flatten(1).unsqueeze(1)
        real = found.bool().repeat_interleave(size, 1).unsqueeze(1) & (j < keys) & (i < queries)
        i, j = i.clamp(max=queries - 1).to(device), j.clamp(max=keys - 1).to(device)
        allowed = pattern.allows(i, j, keys) & real.to(device)
        buckets.append(_Bucket(rows.to(device), columns.to(device), i, j, allowed))
        counts[rows] = 0
    return buckets


_remembered_buckets = lru_cache(maxsize=8)(_make_buckets)


def _tile(x: Tensor, size: int) -> Tensor:
    """(B, H, L, D) → (B·H, ⌈L/size⌉, size, D), filled up with zeros"""
    x = F.pad(x, (0, 0, 0, -x.shape[2] % size)) if x.shape[2] % size else x
    return x.flatten(0, 1).unflatten(1, (-1, size))


def _fold_heads(x: Tensor | None, query: Tensor) -> Tensor | None:
    """Reshape x, which broadcasts to (B, H, R, q, k), to broadcast to (B·H, R, q, k); B and H are the query's."""
    if x is None or x.dim() <= 3:
        return x
    x = x.unsqueeze(0) if x.dim() == 4 else x
    return x.expand(query.shape[:2] + x.shape[2:]).flatten(0, 1)


def _bias_at(bias: Bias | None, query: Tensor, i: Tensor, j: Tensor) -> Tensor | None:
    """The bias of queries at i and keys at j, broadcastable to (B, H, *rows, columns)."""
    if bias is None:
        return None
    if not isinstance(bias, Tensor):
        return bias(query, i, j)
    if bias.shape[-1] == 1 or bias.shape[-2] == 1:
        i = i if bias.shape[-2] > 1 else torch.zeros_like(i)
        j = j if bias.shape[-1] > 1 else torch.zeros_like(j)
    return bias[..., i, j]


def _sparse(weights: Tensor, i: Tensor, j: Tensor, allowed: Tensor, query: Tensor, keys: int) -> Tensor:
    """The weights (B·H, R, q, k) of the allowed pairs (i, j), as a sparse tensor (B, H, Q, K).

    H is the number of watched heads.
    """
    allowed = _Heads(query.shape[1], axis=-4).part(allowed)
    query = _Heads(query.shape[1], axis=-3).part(query)
    folded = _fold_heads(allowed, query)
    assert folded is not None
    which = folded.expand_as(weights)
    head = torch.arange(weights.shape[0], device=weights.device).view(-1, 1, 1, 1).expand_as(weights)[which]
    heads = query.shape[1]
    index = torch.stack([head // heads, head % heads, i.expand_as(weights)[which], j.expand_as(weights)[which]])
    return torch.sparse_coo_tensor(index, weights.detach()[which], (*query.shape[:3], keys), check_invariants=False)


def _few(query: Tensor, key: Tensor) -> bool:
    """Whether `attend_short` is faster than torch's fused attention."""
    here = query.device.type == "cpu" and query.dtype == torch.float32 and not _grouped(query, key)
    return here and query.shape[2] > 1 and key.shape[2] <= FEW_KEYS


def _hides_nan(query: Tensor, key: Tensor) -> bool:
    """Whether torch's fused attention would give zeros for a query whose scores are all NaN.

    On a CPU, with fewer keys than a register has numbers and no mask, it takes such a row for one without keys. A mask
    of zeros changes nothing else.
    """
    return query.device.type == "cpu" and 0 < key.shape[2] < REGISTER


def _ungrouped(query: Tensor, x: Tensor) -> Tensor:
    """Keys or values for each head of the query."""
    return x.repeat_interleave(query.shape[1] // x.shape[1], 1) if _grouped(query, x) else x


def _grouped(query: Tensor, key: Tensor) -> bool:
    return query.shape[1] != key.shape[1]


def _sees_all(pattern: Pattern, keys: int) -> bool:
    """Whether every pair is allowed: it is All, or Causal with every query at the last key or after it."""
    if isinstance(pattern, Shifted):
        return isinstance(pattern.pattern, Causal) and pattern.start >= keys - 1
    return isinstance(pattern, All)
