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
from regard.kernels.products import PAYS, fits_onednn, product
from regard.layers.feed_forward import FeedForward, bend
from regard.layers.packed import Halves, Packed
from regard.layers.wiring import NormFirst, NormLast

MOST_ROWS = 1 << 62  # there are always fewer
LARGE = 1 << 17  # weights from which a map has two cores for one row, and packed weights for several
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
    """As torch's linear, but the weights are transposed once and not at each call, and packed if that pays."""
    if weight.numel() >= LARGE and fits_onednn(weight):
        return _large(weight, bias)
    matrix, many = weight.T, -(-PAYS // weight.numel()) if fits_onednn(weight) else MOST_ROWS
    if bias is None:
        return lambda x: torch.mm(x, matrix) if len(x) < many else product(x, weight, None)
    return lambda x: torch.addmm(bias, x, matrix) if len(x) < many else product(x, weight, bias)


def _large(weight: Tensor, bias: Tensor | None) -> Map:
    """A map whose weights take longer to read than to multiply with a few rows."""
    one, packed = Halves(weight, bias), list[Packed]()

    def of(x: Tensor) -> Tensor:
        if len(x) == 1:
            return one(x)
        if not packed:
            packed.append(Packed(weight, bias))
        return packed[0](x)

    return of


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


def few(keys: Tensor) -> bool:
    """Whether keys (A, H, K, D) belong to few heads."""
    return keys.shape[0] * keys.shape[1] <= FEW_HEADS


def laid_out(seen: Tensor) -> tuple[Tensor, ...]:
    """Keys and values in turn as `attend` takes them, without copying: seen (2 L, A, H, K, D) → 2 L of (A, H, K, D), or
    of (A · H, K, D) for batched products."""
    return (seen if few(seen[0]) else seen.flatten(1, 2)).unbind(0)


def laid_over(mask: Tensor | None, keys: Tensor) -> Tensor | None:
    """A mask (A, 1, beams or 1, K) as `attend` takes it beside these keys."""
    if mask is None or keys.dim() == 4:
        return mask
    return mask.expand(-1, len(keys) // len(mask), -1, -1).flatten(0, 1)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """All beams of a sentence at once: query (A, beams, H, D); keys, values and mask as they are laid out → (N, M)"""
    return (_fused if keys.dim() == 4 else _batched)(query, keys, values, mask)


def _fused(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """query (A, Q, H, D), keys and values (A, H, K, D), mask (A, 1, Q or 1, K) → (A · Q, M)"""
    sentences, queries, heads, width = query.shape
    if queries == 1:
        rows = query.view(sentences, heads, 1, width)
        return F.scaled_dot_product_attention(rows, keys, values, mask, scale=1.0).view(sentences, -1)
    found = F.scaled_dot_product_attention(query.transpose(1, 2), keys, values, mask, scale=1.0)
    return found.transpose(1, 2).reshape(sentences * queries, -1)


def _batched(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """The same by two batched products: keys and values (A · H, K, D), mask (A · H, Q or 1, K)"""
    sentences, queries, heads, width = query.shape
    rows = (query if queries == 1 else query.transpose(1, 2)).reshape(len(keys), queries, width)
    columns = keys.transpose(1, 2)
    scores = torch.bmm(rows, columns) if mask is None else torch.baddbmm(mask, rows, columns)
    found = torch.bmm(scores.softmax(-1), values)
    if queries == 1:
        return found.view(sentences, -1)
    return found.view(sentences, heads, queries, width).transpose(1, 2).reshape(sentences * queries, -1)
