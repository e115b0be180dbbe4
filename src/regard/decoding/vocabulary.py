"""Log-probabilities and the few largest logits over a vocabulary, in as few passes as possible.

N rows  V vocabulary  k largest wanted
"""

from __future__ import annotations

import torch
from torch import Tensor

_FEW_ROWS = 4  # with this many rows or fewer, the largest are found in one pass
_BLOCK = 64  # neighbouring logits; the maximum of each block is compared first


def own(logits: Tensor) -> Tensor:
    """Logits that may be overwritten: a copy if they existed before the search began, because they are the model's."""
    return logits if logits.is_inference() else logits.clone()


def to_logprobs(logits: Tensor) -> Tensor:
    """log p = logits − log Σ_v exp(logits_v): (N, V) → (N, V), in float32; logits of that precision are overwritten."""
    if logits.dtype != torch.float32:
        return logits.log_softmax(-1, torch.float32)
    return torch.log_softmax(logits, -1, out=logits)


def largest(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, largest first, and where they are. (N, V) → (N, k), (N, k).

    The k largest lie in the k blocks whose own largest are largest, so only those blocks are sorted.
    """
    rows, vocabulary = logits.shape
    if k == 1 and rows <= _FEW_ROWS:
        return logits.max(1, keepdim=True)
    if 4 * k * _BLOCK > vocabulary:
        values, places = logits.topk(k)
        return values, places
    blocks = vocabulary // _BLOCK
    body, tail = logits[:, : blocks * _BLOCK].reshape(-1, blocks, _BLOCK), logits[:, blocks * _BLOCK :]
    promising = body.amax(-1).topk(k).indices  # (N, k) blocks
    row = torch.arange(rows, device=logits.device).unsqueeze(1)
    candidates = torch.cat([body[row, promising].flatten(1), tail], 1)  # (N, k · block + tail)
    values, chosen = candidates.topk(k)
    block = promising.gather(1, (chosen // _BLOCK).clamp(max=k - 1))
    in_tail = chosen - k * _BLOCK
    return values, torch.where(in_tail < 0, block * _BLOCK + chosen % _BLOCK, blocks * _BLOCK + in_tail)
