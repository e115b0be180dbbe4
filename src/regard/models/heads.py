"""What stands on a body that reads a text: one linear map, for the whole text or for each token.

    text     y = W dropout(pool(h)) + b         Devlin 2019, figure 4 (a) and (b); Radford 2018, figure 1
    token    y_t = W dropout(h_t) + b           (c) and (d)

B batch  L length  M width  C classes
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.layers.dropout import Dropout
from regard.layers.initial import start_normal
from regard.layers.padding import row_lengths
from regard.linear import Linear
from regard.models import from_config
from regard.models.bert import Bert
from regard.models.elmo import Elmo
from regard.models.gpt import GPT
from regard.models.rnn import RNN

Body = Bert | Elmo | GPT | RNN
Pooling = Literal["pooler", "first", "last", "mean"]
POOLED: dict[str, Pooling] = {"bert": "pooler", "elmo": "mean", "gpt": "last", "rnn": "last"}  # unless told


def states(body: Body, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
    """What a body makes of each token, told the segments if it tells them apart.   tokens (B, L) → (B, L, M)"""
    if isinstance(body, Bert) and body.segments is not None:
        return body(tokens, lengths, segments)
    if isinstance(body, GPT | RNN):
        return body(tokens)  # which stands before its padding and never sees it
    return body(tokens, lengths)


def pool(body: Body, hidden: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """One vector for each text: tanh(W_p h_0), the first, the last or the mean of all that is no padding.

    (B, L, M) → (B, M)
    """
    if pooling == "pooler":
        if not isinstance(body, Bert):
            raise RegardError('pooling="pooler" is for the kind bert; try "mean"')
        return body.pool(hidden)
    if pooling == "first":
        return hidden[:, 0]
    if pooling == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
    real = torch.arange(hidden.shape[1], device=hidden.device) < lengths.unsqueeze(1)  # (B, L)
    return (hidden * real.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1)


def headed(config: Any, *, classes: int, pooled: bool, vocabulary: int = 0) -> Headed:
    """A body with a head on it: for so many classes, of each text if `pooled` and otherwise of each token."""
    encoder: Any = from_config(config, vocabulary=vocabulary)
    pooling: Pooling | None = (config.pooling or POOLED[config.kind]) if pooled else None
    return Headed(encoder, classes=classes, pooling=pooling, dropout=config.dropout)


class Headed(nn.Module):
    """tokens (B, L) → logits (B, C) of the whole text if it is pooled, and otherwise (B, L, C) of each token."""

    alignment = ""

    def __init__(self, encoder: Body, *, classes: int, pooling: Pooling | None, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        if not isinstance(encoder, Bert):
            del encoder.output  # nobody asks it for words any more
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.output = Linear(encoder.width, classes)
        start_normal(self.output)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """tokens (B, L) padded at the end, segments (B, L) from 0 on, where the body tells them apart."""
        lengths = row_lengths(tokens, lengths, pad=self.encoder.special.pad)
        hidden = states(self.encoder, tokens, lengths, segments)
        if self.pooling is not None:
            hidden = pool(self.encoder, hidden, lengths, self.pooling)
        return self.output(self.dropout(hidden))
