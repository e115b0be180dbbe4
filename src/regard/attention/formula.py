"""The one formula: `attend` takes the fastest exact path, `reference` is the equation and nothing else."""

from __future__ import annotations

import math

from torch import Tensor

from regard.attention import exact, scores
from regard.attention.exact import Bias
from regard.attention.patterns import All, Causal, Pattern, Window
from regard.attention.scores import Score
from regard.errors import RegardError


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

    query (B, H, Q, D), key (B, H, K, D), value (B, H, K, Dv) → (B, H, Q, Dv). Keys and values may have fewer heads, each shared
    by as many query heads. A query that may look at nothing gives zeros.
    """
    _check(query, key, value)
    score = _named(score, query)
    return attend_projected(score.queries(query), score.keys(key), value, score=score, pattern=pattern, bias=bias)


def attend_projected(
    query: Tensor, key: Tensor, value: Tensor, *, score: Score, pattern: Pattern | None = None, bias: Bias | None = None
) -> Tensor:
    """`attend` on queries and keys that went through `score.queries` and `score.keys` before.

    For keys that are looked at again and again: project them once.
    """
    _check(query, key, value)
    if score.dot and query.shape[-1] != key.shape[-1]:
        raise RegardError(
            f"attend: query has width {query.shape[-1]} but key has width {key.shape[-1]}; "
            "they must be equal for this score (general and additive take two widths)"
        )
    pattern = All() if pattern is None else pattern
    if isinstance(bias, Tensor) and bias.dim() < 2:
        bias = bias.view(1, -1)
    queries, keys = query.shape[2], key.shape[2]
    if isinstance(pattern, All | Causal) or queries == 0 or keys == 0:
        return exact.dense(query, key, value, score=score, pattern=pattern, bias=bias)
    pairs = pattern.edges()
    table = None if pairs is not None else _small_table(pattern, queries, keys)
    size = None if pairs is not None or table is not None else exact.choose_tiles(pattern, queries, keys)
    if pairs is None and table is None and size is None:
        return exact.dense(query, key, value, score=score, pattern=pattern, bias=bias)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if pairs is not None:
        return exact.edges(query, key, value, score=score, pattern=pattern, bias=bias, pairs=pairs)
    if table is not None:
        return exact.neighbours(query, key, value, score=score, pattern=pattern, bias=bias, table=table)
    assert size is not None
    return exact.blocks(query, key, value, score=score, pattern=pattern, bias=bias, size=size)


def reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: str | Score = "scaled_dot",
    pattern: Pattern | None = None,
    bias: Tensor | float = 0.0,
) -> Tensor:
    """The equation of `attend`, slow and obvious: what every fast path is tested against."""
    score = _named(score, query)
    allowed = (pattern or All()).dense(query.shape[-2], key.shape[-2], device=query.device)
    q, k = score.queries(query), score.keys(key)
    logits = score.compare(q.unsqueeze(-2), k.unsqueeze(-3)) + bias  # (B, H, Q, 1, D), (B, H, 1, K, D) → (B, H, Q, K)
    anything = allowed.any(-1, keepdim=True)
    weights = logits.masked_fill(~allowed & anything, -math.inf).softmax(-1) * anything
    return weights @ value


def _named(score: str | Score, query: Tensor) -> Score:
    if isinstance(score, Score):
        return score
    built = scores.build(score, width=query.shape[-1]).to(query.device, query.dtype)
    if any(parameter.numel() > 1 for parameter in built.parameters()):
        raise RegardError(
            f"attend: score={score!r} has weights to learn; build it once, scores.build({score!r}, width=…), and pass the module"
        )
    return built


def _small_table(pattern: Pattern, queries: int, keys: int) -> Tensor | None:
    """Neighbours as a table where that is the cheapest form: windows with holes (grids, dilation, stride) and random keys."""
    table = pattern.neighbours(queries, keys) if not _is_band(pattern) else None
    return table if table is not None and 4 * table.shape[1] <= keys else None


def _is_band(pattern: Pattern) -> bool:
    """A plain window, alone or narrowed further: contiguous, so tiles serve it best."""
    if isinstance(pattern, Window):
        return pattern.shape is None and pattern.stride == 1 and pattern.dilation == 1
    return any(_is_band(part) for part in vars(pattern).values() if isinstance(part, Pattern))


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
        raise RegardError(f"attend: query has batch {query.shape[0]} but key has batch {key.shape[0]}; they must be equal")
    if key.shape[1] == 0 or query.shape[1] % key.shape[1]:
        raise RegardError(
            f"attend: query has {query.shape[1]} heads but key has {key.shape[1]}; "
            "query's must be the same number or a multiple of it"
        )
