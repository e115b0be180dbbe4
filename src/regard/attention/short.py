"""Exact softmax attention over few keys, on a CPU.

torch's fused attention is made for long sequences: with fewer keys than a vector register has numbers its softmax goes
one number at a time, and its threads wait for each other. Here all heads of all sentences are a few batched products,
and rows of scores are filled up to a whole register.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

FEW_KEYS = 64  # with more keys, torch's fused attention is as fast
REGISTER = 16  # float32 numbers in 512 bits


def attend_short(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """softmax(Q Kᵀ + bias) V:  query (B, H, Q, D), key and value (B, H, K, D) → (B, H, Q, D)

    `bias` broadcasts to (B, H, Q, K) and has no gradient; −∞ forbids. A query that may look at nothing gives zeros.
    B, Q and K may be 0. NaN in the inputs gives NaN in the output.
    """
    return _Short.apply(query, key, value, bias)


class _Short(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        batch, heads, queries, _ = query.shape
        keys = key.shape[2]
        filled = -(-keys // REGISTER) * REGISTER
        q, k, v = _flat(query, queries), _flat(key, filled), _flat(value, filled)  # (B·H, length, D)
        logits = torch.bmm(q, k.transpose(1, 2)).view(batch, heads, queries, filled)
        weights = weigh(logits, bias, keys).view(batch * heads, queries, filled)
        context.save_for_backward(q, k, v, weights)
        context.shape = batch, heads, keys
        return torch.bmm(weights, v).view(batch, heads, queries, v.shape[2])

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights = context.saved_tensors
        batch, heads, keys = context.shape
        above = _flat(above, above.shape[2])
        to_value = torch.bmm(weights.transpose(1, 2), above)
        to_weights = torch.bmm(above, v.transpose(1, 2))
        to_logits = torch._softmax_backward_data(to_weights, weights, -1, weights.dtype)
        to_query = torch.bmm(to_logits, k)
        to_key = torch.bmm(to_logits.transpose(1, 2), q)
        gradients = (x.view(batch, heads, *x.shape[1:]) for x in (to_query, to_key, to_value))
        to_query, to_key, to_value = gradients
        return to_query, to_key[:, :, :keys], to_value[:, :, :keys], None


def weigh(logits: Tensor, bias: Tensor | None, keys: int, *, scale: float = 1.0) -> Tensor:
    """softmax(scale · logits + bias) over the first `keys` columns, and 0 in the others, in place of the logits.

    logits (…, Q, K or more), bias broadcastable to (…, Q, K).   A row without a single finite number gives zeros.
    """
    if bias is None or keys == 0:
        logits = logits if scale == 1.0 else logits.mul_(scale)
        logits[..., keys:] = -torch.inf
        return torch.softmax(logits, -1, out=logits)
    bias = F.pad(bias, (0, logits.shape[-1] - keys), value=-torch.inf)
    weights = torch.softmax(torch.add(bias, logits, alpha=scale, out=logits), -1, out=logits)
    lonely = bias.amax(-1, keepdim=True) == -torch.inf  # queries that may look at nothing: their softmax is NaN
    return weights.masked_fill_(lonely, 0.0) if lonely.any() else weights


def _flat(x: Tensor, length: int) -> Tensor:
    """(B, H, L, D) → (B·H, length, D), filled up with zeros"""
    if x.shape[2] == length:
        return x.reshape(x.shape[0] * x.shape[1], length, x.shape[3])
    whole = x.new_zeros(*x.shape[:2], length, x.shape[3])
    whole[:, :, : x.shape[2]] = x
    return whole.flatten(0, 1)
