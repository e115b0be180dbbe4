"""The encoder and the decoder of ConvS2S: gated convolutions, and attention over the source in every decoder layer.

models/conv_seq2seq.py has the equations.

B batch  S source length  T target length  M width  E width of embeddings  k kernel
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.formula import attend_projected
from regard.attention.patterns import Padding
from regard.attention.scores import Dot
from regard.layers.convolution import GatedConvolution, normed_linear
from regard.layers.dropout import Dropout

HALF = 0.5**0.5


@dataclass(frozen=True)
class Memory:
    """A source that was read: keys z and values z + e, (B, 1, S, E) each, and lengths (B,)."""

    keys: Tensor
    values: Tensor
    lengths: Tensor

    def reorder(self, rows: Tensor) -> Memory:
        return Memory(*(part.index_select(0, rows) for part in (self.keys, self.values, self.lengths)))


class Encoder(nn.Module):
    """e (B, S, E), lengths (B,) → z (B, S, E).   Padding is zero wherever a window could reach it."""

    def __init__(self, layers: int, *, width: int, embedding: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.enter = normed_linear(embedding, width, dropout=dropout)
        self.layers = nn.ModuleList(GatedConvolution(width, kernel=kernel, dropout=dropout) for _ in range(layers))
        self.leave = normed_linear(width, embedding)
        self.dropout = Dropout(dropout)
        self.sides = (kernel - 1) // 2, kernel // 2

    def forward(self, e: Tensor, lengths: Tensor) -> Tensor:
        real = (torch.arange(e.shape[1], device=e.device) < lengths.unsqueeze(1)).unsqueeze(-1)  # (B, S, 1)
        h = self.enter(e)
        for convolution in self.layers:
            h = HALF * (h + convolution(F.pad(self.dropout(h * real), (0, 0, *self.sides))))
        return self.leave(h)


class Attention(nn.Module):
    """v (B, T, M), the targets g (B, T, E) and the memory → W_c c + b_c (B, T, M)"""

    def __init__(self, width: int, *, embedding: int) -> None:
        super().__init__()
        self.query = normed_linear(width, embedding)
        self.output = normed_linear(embedding, width)
        self.score = Dot()

    def forward(self, v: Tensor, g: Tensor, memory: Memory) -> Tensor:
        query = (self.query(v) + g).unsqueeze(1)  # (B, 1, T, E)
        pattern = Padding(memory.lengths)
        context = attend_projected(query, memory.keys, memory.values, score=self.score, pattern=pattern).squeeze(1)
        return self.output(context * memory.lengths.to(context.dtype).sqrt().view(-1, 1, 1))


class DecoderLayer(nn.Module):
    """h (B, T, M), the k − 1 inputs before it, g (B, T, E) and the memory → h, and the last k − 1 inputs."""

    def __init__(self, *, width: int, embedding: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(width, kernel=kernel, dropout=dropout)
        self.attention = Attention(width, embedding=embedding)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, past: Tensor, g: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        inputs = torch.cat([past, self.dropout(h)], dim=1)
        v = self.convolution(inputs)
        v = HALF * (v + self.attention(v, g, memory))
        return HALF * (h + v), inputs[:, h.shape[1] :]


class Decoder(nn.Module):
    """g (B, T, E), the past of each layer and the memory → o (B, T, E), and the past after it."""

    def __init__(self, layers: int, *, width: int, embedding: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.enter = normed_linear(embedding, width, dropout=dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(width=width, embedding=embedding, kernel=kernel, dropout=dropout) for _ in range(layers)
        )
        self.leave = normed_linear(width, embedding)
        self.dropout = Dropout(dropout)

    def forward(self, g: Tensor, past: tuple[Tensor, ...], memory: Memory) -> tuple[Tensor, tuple[Tensor, ...]]:
        h, kept = self.enter(g), []
        for layer, before in zip(self.layers, past, strict=True):
            h, after = layer(h, before, g, memory)
            kept.append(after)
        return self.dropout(self.leave(h)), tuple(kept)
