"""The parts of a block as plain functions of rows (N, M): what a step calls instead of modules.

The results are those of the modules, without gradients, dropout or recording.

A sentences  N = A · beams rows  H heads  K keys  D head width  M width
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.scores import ScaledDot
from regard.layers.feed_forward import FeedForward, bend
from regard.layers.wiring import NormFirst, NormLast

FEW_HEADS = 32  # sentences · heads up to which torch's fused attention is faster than batched products

Map = Callable[[Tensor], Tensor]


class Around:
    """A residual around a sublayer, as two halves; the output of the sublayer may be overwritten."""

    def __init__(self, residual: nn.Module) -> None:
        assert isinstance(residual, NormFirst | NormLast)
        self.norm = norm_of(residual.norm)
        self.first = isinstance(residual, NormFirst)
        self.alpha = 1.0 if isinstance(residual, NormFirst) else residual.alpha

    def enter(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.first else x

    def leave(self, x: Tensor, found: Tensor) -> Tensor:
        found = found.add_(x, alpha=self.alpha)
        return found if self.first else self.norm(found)


def scaled(attention: MultiHead) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of the queries as the score compares them."""
    query = attention.query
    scale = (query.out_features // attention.heads) ** -0.5 if isinstance(attention.score, ScaledDot) else 1.0
    return query.weight * scale, None if query.bias is None else query.bias * scale


def linear(weight: Tensor, bias: Tensor | None) -> Map:
    """As torch's linear, but the weights are transposed once and not at each call."""
    matrix = weight.T
    if bias is None:
        return lambda x: torch.mm(x, matrix)
    return lambda x: torch.addmm(bias, x, matrix)


def linear_of(part: nn.Linear) -> Map:
    return linear(part.weight, part.bias)


def feed_forward(part: FeedForward) -> Map:
    inner, outer, activation = linear_of(part.inner), linear_of(part.outer), part.activation
    if part.gate is None:
        return lambda x: outer(bend(inner(x), activation))
    gate = linear_of(part.gate)
    return lambda x: outer(F.silu(gate(x)) * inner(x))


def norm_of(norm: nn.Module) -> Map:
    if not isinstance(norm, nn.LayerNorm):
        return norm
    shape, weight, bias, epsilon = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """All beams of a sentence at once: query (A, beams, H, D), keys and values (A, H, K, D), mask (A, 1, beams or 1, K)
    → (N, M)"""
    found = (_fused if few(keys) else _batched)(query, keys, values, mask)
    return found.view(len(query) * query.shape[1], -1)


def few(keys: Tensor) -> bool:
    """Whether keys (A, H, K, D) belong to few heads."""
    return keys.shape[0] * keys.shape[1] <= FEW_HEADS


def _fused(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """query (A, Q, H, D), keys and values (A, H, K, D), mask (A, 1, Q or 1, K) → (A, Q, H, D)"""
    found = F.scaled_dot_product_attention(query.transpose(1, 2), keys, values, mask, scale=1.0)
    return found.transpose(1, 2).contiguous()


def _batched(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """The same by two batched products."""
    sentences, queries, heads, _ = query.shape
    weights = torch.bmm(query.transpose(1, 2).flatten(0, 1), keys.flatten(0, 1).transpose(1, 2))  # (A·H, Q, K)
    if mask is not None:
        weights.view(sentences, heads, queries, -1).add_(mask)
    found = torch.bmm(weights.softmax(-1), values.flatten(0, 1))
    return found.view(sentences, heads, queries, -1).transpose(1, 2).contiguous()
