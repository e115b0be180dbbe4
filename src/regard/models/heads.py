"""What stands on a body that reads a text: one linear map, for the whole text or for each token.

    text     y = W dropout(pool(h)) + b         Devlin 2019, figure 4 (a) and (b)
    token    y_t = W dropout(h_t) + b           (c) and (d)

B batch  L length  M width  C classes
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.initial import start_normal
from regard.layers.padding import row_lengths
from regard.linear import Linear
from regard.models.bert import Bert, BertConfig

Pooling = Literal["pooler", "first", "mean"]


def pool(body: Bert, hidden: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """One vector for each text: tanh(W_p h_0), h_0, or the mean of all that is no padding.   (B, L, M) → (B, M)"""
    if pooling == "pooler":
        return body.pool(hidden)
    if pooling == "first":
        return hidden[:, 0]
    real = torch.arange(hidden.shape[1], device=hidden.device) < lengths.unsqueeze(1)  # (B, L)
    return (hidden * real.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1)


def headed(config: BertConfig, *, classes: int, pooled: bool, vocabulary: int = 0) -> Headed:
    """A body with a head on it: for so many classes, of each text if `pooled` and otherwise of each token."""
    encoder = Bert(config, vocabulary=config.vocabulary or vocabulary)
    pooling: Pooling | None = (config.pooling or "pooler") if pooled else None
    return Headed(encoder, width=config.width, classes=classes, pooling=pooling, dropout=config.dropout)


class Headed(nn.Module):
    """tokens (B, L) → logits (B, C) of the whole text if it is pooled, and otherwise (B, L, C) of each token."""

    alignment = ""

    def __init__(self, encoder: Bert, *, width: int, classes: int, pooling: Pooling | None, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.output = Linear(width, classes)
        start_normal(self.output)

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which."""
        return self.encoder.looks(path)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """tokens (B, L) padded at the end, segments (B, L) from 0 on, where the body tells them apart."""
        lengths = row_lengths(tokens, lengths, pad=self.encoder.special.pad)
        hidden = self.encoder(tokens, lengths, segments if self.encoder.segments is not None else None)
        if self.pooling is not None:
            hidden = pool(self.encoder, hidden, lengths, self.pooling)
        return self.output(self.dropout(hidden))
