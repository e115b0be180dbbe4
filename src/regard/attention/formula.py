"""The one formula: `attend` takes the fastest exact path, `reference` is the equation and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from regard.attention import exact, scores
from regard.attention.exact import Bias
from regard.attention.patterns import All, Causal, Pattern
from regard.attention.scores import Cosine, Dot, ScaledDot, Score
from regard.errors import RegardError

# The cost of each kernel, forward and backward, in pairs of torch's fused attention, as measured on a CPU.
FEW_PAIRS = 128 * 128  # with this many pairs or fewer, dense attention is used
TILE_SIZES = (128, 64, 32)  # large tiles run faster, small tiles cover fewer forbidden pairs
TILE_OVERHEAD = 24  # a tile of size s costs s·(s + 24)
NEIGHBOUR_COST = 80  # a pair in a table of neighbours costs this: it gathers its own key and value


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: str | Score = "scaled_dot",
    pattern: Pattern | None = None,
    bias: Bias | None = None,
) -> Tensor:
    """Look with every query at the keys it may look at, and average their values.

        out_i = Σ_j w_ij v_j        w_i = softmax_j( score(q_i, k_j) + bias_ij )   over the j that i may look at

    query (B, H, Q, D), key (B, H, K, D), value (B, H, K, Dv) → (B, H, Q, Dv). Keys and values may have fewer heads,
    each shared by equally many heads of the query. A query that may look at nothing gives zeros.
    """
    _check(query, key, value)
    score = _named(score, query)
    return attend_projected(score.queries(query), score.keys(key), value, score=score, pattern=pattern, bias=bias)


def attend_projected(
    query: Tensor, key: Tensor, value: Tensor, *, score: Score, pattern: Pattern | None = None, bias: Bias | None = None
) -> Tensor:
    """`attend` on results of `score.queries` and `score.keys`.

    It is for keys that many calls look at: they are projected once.
    """
    _check(query, key, value)
    if score.dot and query.shape[-1] != key.shape[-1]:
        raise RegardError(
            f"attend: query has width {query.shape[-1]} but key has width {key.shape[-1]}; "
            "they must be equal for this score (general and additive take two widths)"
        )
    batch, heads, queries, keys = *query.shape[:3], key.shape[2]
    pattern = All() if pattern is None else pattern
    pattern.check(batch, heads, queries, keys)
    bias = _fitting(bias, (batch, heads, queries, keys))
    kernel = choose(pattern, queries, keys)
    groups = heads // key.shape[1]
    if groups > 1 and kernel is not exact.dense:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    return kernel(query, key, value, score=score, pattern=pattern, bias=bias)


def choose(pattern: Pattern, queries: int, keys: int) -> Callable[..., Tensor]:
    """The cheapest kernel of exact.py, ready to be called, by the statements that the pattern makes about itself."""
    pairs = pattern.edges()
    if pairs is not None:
        return partial(exact.edges, pairs=pairs)
    if isinstance(pattern, All | Causal) or queries * keys <= FEW_PAIRS:
        return exact.dense
    cost, size = 0.5 * queries * keys, 0  # a saving of less than half does not pay for the bookkeeping
    for tile in TILE_SIZES:
        tiles = pattern.blocks(tile, queries, keys)
        if tiles is not None and (tiled := int(tiles.sum()) * tile * (tile + TILE_OVERHEAD)) < cost:
            cost, size = tiled, tile
    row = pattern.neighbours(1, keys)
    if row is not None and row.shape[1] * queries * NEIGHBOUR_COST < cost:
        table = pattern.neighbours(queries, keys)
        assert table is not None, "a pattern has a table for every number of queries or for none"
        return partial(exact.neighbours, table=table)
    return partial(exact.blocks, size=size) if size else exact.dense


def reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: str | Score = "scaled_dot",
    pattern: Pattern | None = None,
    bias: Tensor | float = 0.0,
) -> Tensor:
    """The equation of `attend`, slow and obvious. Tests compare every fast path with it."""
    score = _named(score, query)
    batch, heads, queries, keys = *query.shape[:3], key.shape[2]
    pattern = All() if pattern is None else pattern
    pattern.check(batch, heads, queries, keys)
    allowed = pattern.dense(queries, keys, device=query.device)
    q, k = score.queries(query), score.keys(key)
    logits = score.compare(q.unsqueeze(-2), k.unsqueeze(-3)) + bias  # (B, H, Q, 1, D), (B, H, 1, K, D) → (B, H, Q, K)
    anything = allowed.any(-1, keepdim=True)
    weights = logits.masked_fill(~allowed & anything, -math.inf).softmax(-1) * anything
    return weights @ value


def _named(score: str | Score, query: Tensor) -> Score:
    if isinstance(score, Score):
        return score
    built = scores.build(score, width=query.shape[-1]).to(query.device, query.dtype)
    if not isinstance(built, Dot | ScaledDot | Cosine):
        raise RegardError(
            f"attend: score={score!r} has weights to learn; build it once, scores.build({score!r}, width=…), "
            "and pass the module"
        )
    return built


def _fitting(bias: Bias | None, shape: tuple[int, ...]) -> Bias | None:
    """The bias with at least the two axes (Q, K), if it fits the scores."""
    if not isinstance(bias, Tensor):
        return bias
    try:
        fits = torch.broadcast_shapes(bias.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise RegardError(
            f"attend: bias has shape {tuple(bias.shape)}; expected one that broadcasts to "
            f"(batch, heads, queries, keys) = {shape}"
        )
    return bias.view(1, -1) if bias.dim() < 2 else bias


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise RegardError(f"attend: {name} has shape {tuple(x.shape)}; expected (batch, heads, length, width)")
    if key.shape[:3] != value.shape[:3]:
        raise RegardError(
            f"attend: key has shape {tuple(key.shape)} but value has {tuple(value.shape)}; "
            "batch, heads and length must be equal"
        )
    if query.shape[0] != key.shape[0]:
        raise RegardError(
            f"attend: query has batch {query.shape[0]} but key has batch {key.shape[0]}; they must be equal"
        )
    if key.shape[1] == 0 or query.shape[1] % key.shape[1]:
        raise RegardError(
            f"attend: query has {query.shape[1]} heads but key has {key.shape[1]}; "
            "query's must be the same number or a multiple of it"
        )
