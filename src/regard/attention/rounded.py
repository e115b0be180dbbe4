"""A layer of exact attention in half precision while it learns: what is between its products stays rounded.

    y = [softmax((x W_Q) (m W_K)ᵀ / √D + bias) (m W_V)] W_O                                 Vaswani 2017, 3.2.2

The scores are float32 for their softmax, and so is y. Casts and copies of heads take as long as the products of a
small model, and on a CPU that is made for half precision, batched products of short rows are three to five times as
fast in it.

N rows of all sentences  B batch  Q queries  K keys  L queries or keys  H heads  D width of a head  M = H · D
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.short import REGISTER, weigh
from regard.kernels.linear import Linear, joined, parameters_of, product, room_for, rounded, to_parameters

MOST_KEYS = 512  # with more, the weights that are kept for the backward pass would be most of the memory
OUTPUT = slice(6, 8)  # the parameters of the last map


def attend_rounded(
    x: Tensor, memory: Tensor | None, bias: Tensor | None, maps: Sequence[Linear], *, heads: int
) -> Tensor:
    """Scaled dot-product attention of x (B, Q, M) over a memory (B, K, m), or over x itself: → (B, Q, M)

    `maps` are those of query, key, value and output, which round to one precision. `bias` broadcasts to (B, H, Q, K)
    and has no gradient; −∞ forbids. Heads of a query that may look at nothing are zero.
    """
    return _Attention.apply(x, memory, bias, heads, maps[0].products, *parameters_of(*maps))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        x: Tensor,
        memory: Tensor | None,
        bias: Tensor | None,
        heads: int,
        precision: torch.dtype,
        *parameters: Tensor | None,
    ) -> Tensor:
        sides = [x] if memory is None else [x, memory]
        (batch, queries, width), keys = x.shape, sides[-1].shape[1]
        filled = -(-keys // REGISTER) * REGISTER
        rows, matrices, parts = list[Tensor](), list[Tensor](), list[Tensor]()
        for side, own in zip(sides, _own(len(sides)), strict=True):
            rows.append(rounded(side.reshape(-1, side.shape[2]), precision))
            matrix, added = joined(parameters[own], precision)
            matrices.append(matrix)
            room = filled if side is sides[-1] else queries
            parts += _split(product(rows[-1], matrix, added), batch, side.shape[1], heads, width // heads, room)
        q, k, v = parts
        q = q[:, :queries]
        logits = torch.bmm(q, k.mT).to(x.dtype).view(heads, batch, queries, filled)
        bias = bias.transpose(0, 1) if bias is not None and bias.dim() == 4 else bias
        weights = weigh(logits, bias, keys, scale=1 / math.sqrt(q.shape[2])).to(precision).view(-1, queries, filled)
        merged = _merged([torch.bmm(weights, v)], batch, queries, heads)
        matrix, added = joined(parameters[OUTPUT], precision)
        context.save_for_backward(q, k, v, weights, merged, matrix, *rows, *matrices, *parameters)
        context.shapes, context.heads = [side.shape for side in sides], heads
        return product(merged, matrix, added)[: batch * queries].to(x.dtype).view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        shapes, heads = context.shapes, context.heads
        q, k, v, weights, merged, outward, *saved = context.saved_tensors
        rows, matrices, parameters = saved[: len(shapes)], saved[len(shapes) : -8], saved[-8:]
        to_inputs, needed = context.needs_input_grad[:5], context.needs_input_grad[5:]
        (batch, queries, width), kind = shapes[0], above.dtype
        rough = rounded(above.reshape(-1, width), q.dtype)
        to_output = to_parameters(rough, merged, parameters[OUTPUT], needed[OUTPUT])
        (to_mixed,) = _split(rough @ outward, batch, queries, heads, q.shape[2], queries)
        to_weights = torch.bmm(to_mixed, v.mT).to(kind)
        to_logits = torch._softmax_backward_data(to_weights, weights.to(kind), -1, kind)
        to_logits = to_logits.mul_(1 / math.sqrt(q.shape[2])).to(q.dtype)
        parts = [torch.bmm(to_logits, k), torch.bmm(to_logits.mT, q), torch.bmm(weights.mT, to_mixed)]
        found, to_maps = [None] * 5, list[Tensor | None]()
        for number, (shape, own) in enumerate(zip(shapes, _own(len(shapes)), strict=True)):
            back = _merged(parts[own.start // 2 : own.stop // 2], batch, shape[1], heads)
            to_maps += to_parameters(back, rows[number], parameters[own], needed[own])
            if to_inputs[number]:
                found[number] = (back @ matrices[number])[: batch * shape[1]].to(kind).view(shape)
        return *found, *to_maps, *to_output


def _own(sides: int) -> list[slice]:
    """The parameters that map each side: those of query, key and value, or of query, and of key and value."""
    return [slice(0, 6)] if sides == 1 else [slice(0, 2), slice(2, 6)]


def _split(rows: Tensor, batch: int, length: int, heads: int, width: int, filled: int) -> Tensor:
    """(N or more, parts · M) → (parts, H · B, filled, D), filled up with zeros"""
    apart = rows[: batch * length].view(batch, length, -1, heads, width).permute(2, 3, 0, 1, 4)
    whole = rows.new_empty(*apart.shape[:3], filled, width)
    whole[..., :length, :] = apart
    whole[..., length:, :] = 0
    return whole.flatten(1, 2)


def _merged(parts: Sequence[Tensor], batch: int, length: int, heads: int) -> Tensor:
    """Each (H · B, L or more, D) → (N, parts · M), filled up with rows of zeros"""
    width = parts[0].shape[2]
    whole = room_for(batch * length, len(parts) * heads * width, like=parts[0], precision=parts[0].dtype)
    places = whole[: batch * length].view(batch, length, len(parts), heads, width).unbind(2)
    for place, part in zip(places, parts, strict=True):
        place.copy_(part.view(heads, batch, -1, width)[:, :, :length].permute(1, 2, 0, 3))
    return whole
