"""Tokens become vectors."""

import math

import torch
from torch import Tensor, nn

from regard.attention.positions import Position
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.special import PAD


class Embedding(nn.Module):
    """A vector for each token, with its position.

        x_t = dropout(√M E[token_t] + position_t)                  Vaswani 2017, 3.4 and 3.5; scale=False leaves √M out

    tokens (B, L) int64, at (L,) or (B, L) int64 positions of the tokens (0, 1, 2, … unless given) → (B, L, M).
    E starts normal with standard deviation 1/√M, so that the same matrix can serve as output; the row of `padding`
    starts at zero and gets no gradient from the lookup.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        position: Position | None = None,
        dropout: float = 0.0,
        scale: bool = True,
        padding: int | None = PAD,
    ) -> None:
        super().__init__()
        if vocabulary < 1 or width < 1:
            raise RegardError(f"vocabulary={vocabulary} and width={width}: both must be at least 1")
        if padding is not None and not 0 <= padding < vocabulary:
            raise RegardError(f"padding={padding} is not a token: the vocabulary has 0 to {vocabulary - 1}")
        self.scale = math.sqrt(width) if scale else 1.0
        self.table = nn.Embedding(vocabulary, width, padding_idx=padding)
        self.position = position
        self.dropout = Dropout(dropout)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        if padding is not None:
            with torch.no_grad():
                self.table.weight[padding].zero_()

    def forward(self, tokens: Tensor, at: Tensor | None = None) -> Tensor:
        if tokens.dim() != 2:
            raise RegardError(f"tokens has the shape {tuple(tokens.shape)}; expected (batch, length)")
        x = self.table(tokens)
        if self.scale != 1.0:
            x = x * self.scale
        if self.position is not None:
            x = self.position.on_input(x, torch.arange(tokens.shape[1], device=tokens.device) if at is None else at)
        return self.dropout(x)


def tied_output(embedding: Embedding, *, bias: bool = False) -> nn.Linear:
    """A linear map to the vocabulary whose weight *is* the embedding's: logits = x Eᵀ (+ b).   (…, M) → (…, V)"""
    vocabulary, width = embedding.table.weight.shape
    output = Linear(width, vocabulary, bias=False, device="meta")
    output.weight = embedding.table.weight
    if bias:
        output.bias = nn.Parameter(embedding.table.weight.new_zeros(vocabulary))
    return output
