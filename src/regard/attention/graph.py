"""Attention along the edges of a graph, with time and memory E.

    out_i = Σ_j w_ij v_j        w_i = softmax_j( score(q_i, k_j) )   over the edges (i, j)

B batch   H heads   Q queries   K keys   D width   E edges. All heads of a batch are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention.recorder import deliver, watched_head, watching
from regard.attention.scores import Score
from regard.kernels.sparse import Cells, at_columns, at_rows, mixed, softmax


def attend_graph(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score,
    cells: Cells,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Each query with the keys that it has an edge to: `cells` of a matrix (Q, K).

    query (B, H, Q, D) and key (B, H, K, D) are results of `score.queries` and `score.keys`, value (B, H, K, Dv)
    → (B, H, Q, Dv). `drop` is applied to the weights, after the softmax. A query without an edge gives zeros.
    """
    batch, heads = query.shape[:2]
    cells = cells.to(query.device)
    both = at_rows(cells, _by_node(query)), at_columns(cells, _by_node(key))  # (E, B·H·D) each
    logits = score.compare(*(x.unflatten(1, (batch * heads, -1)) for x in both))  # (E, B·H)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # sums over many edges need the precision
    weights = softmax(cells, logits)
    weights = weights if drop is None else drop(weights)
    if watching():
        deliver(_recorded(weights.detach().unflatten(1, (batch, heads)), cells), head=watched_head())
    out = mixed(cells, weights, _by_node(value).unflatten(1, (batch * heads, -1)).to(weights.dtype))
    return out.to(value.dtype).unflatten(1, (batch, heads)).permute(1, 2, 0, 3)


def _by_node(x: Tensor) -> Tensor:
    """(B, H, N, D) → (N, B·H·D)"""
    return x.permute(2, 0, 1, 3).flatten(1)


def _recorded(weights: Tensor, cells: Cells) -> Tensor:
    """Weights (E, B, H) as a sparse tensor (B, H, Q, K); H is the number of watched heads."""
    head = watched_head()
    weights = weights if head is None else weights[:, :, head : head + 1]
    edges, batch, heads = weights.shape
    number = torch.arange(batch * heads, device=weights.device).repeat_interleave(edges)
    places = (x.long().repeat(batch * heads) for x in (cells.rows, cells.columns))
    index = torch.stack([number // heads, number % heads, *places])
    values = weights.flatten(1).T.flatten()
    return torch.sparse_coo_tensor(index, values, (batch, heads, *cells.size), check_invariants=False).coalesce()
