"""Swin: attention inside windows that shift from layer to layer, on a pyramid of grids (Liu 2021).

    x₀ = norm(patches of p × p pixels)
    x ← x + windows(norm(x))    x ← x + feed_forward(norm(x))      windows are shifted in every second block
    between stages, 2 × 2 places become one:    x ← W norm([x₀₀ ; x₁₀ ; x₀₁ ; x₁₁])
    logits = W mean(norm(x))

Time grows with the places of a grid times those of a window, and never with the square of the places.

B batch  R rows  C columns  M width
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import Literal, Self

import torch
from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.initial import start_normal
from regard.layers.windows import WindowAttention
from regard.layers.wiring import EPSILON, PreNorm, StochasticDepth
from regard.models.facts import Grid, PictureConfig

Sizes = list[PositiveInt]


class SwinConfig(PictureConfig):
    """[model] of kind = "swin". Each stage has twice the width of the one before and half its rows and columns."""

    kind: Literal["swin"] = "swin"
    width: PositiveInt = 48  # of the first stage
    layers: Sizes = Field(default=[2, 2], min_length=1)  # blocks of each stage
    heads: Sizes = Field(default=[3, 6], min_length=1)  # of each stage
    patch: PositiveInt = 2  # pixels
    window: PositiveInt = 7  # places
    expansion: PositiveFloat = 4.0  # the hidden width of feed-forward layers, in widths
    stochastic_depth: float = Field(default=0.1, ge=0.0, lt=1.0)  # of the last block; less before, 0 in the first
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    activation: Activation = "gelu"
    bias: bool = True  # of queries, keys and values
    epsilon: PositiveFloat = EPSILON

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if len(self.layers) != len(self.heads):
            raise RegardError(f"layers = {self.layers}, heads = {self.heads}: give one number for each stage")
        for stage, heads in enumerate(self.heads):
            if (width := self.width << stage) % heads:
                raise RegardError(f"heads = {heads} of stage {stage + 1} does not divide its width {width}")
        return self


class Patches(nn.Module):
    """pictures (B, channels, rows, columns) → a vector for each patch, row by row (B, R·C, M)"""

    def __init__(self, channels: int, *, size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.cut = nn.Conv2d(channels, width, size, stride=size)
        self.norm, self.dropout = nn.LayerNorm(width), Dropout(dropout)

    def forward(self, pictures: Tensor) -> Tensor:
        size, (rows, columns) = self.cut.stride[0], pictures.shape[2:]
        x = self.cut(F.pad(pictures, (0, -columns % size, 0, -rows % size)))
        return self.dropout(self.norm(x.flatten(2).transpose(1, 2)))


class SwinBlock(nn.Module):
    """x (B, R, C, M) → (B, R, C, M)"""

    def __init__(self, config: SwinConfig, width: int, *, heads: int, shifted: bool, share: float) -> None:
        super().__init__()
        c, wiring = config, StochasticDepth(PreNorm(), share)
        self.attention = WindowAttention(width, heads=heads, window=c.window, shifted=shifted, bias=c.bias)
        self.around_attention = wiring.around(width, dropout=c.dropout, epsilon=c.epsilon)
        self.feed_forward = FeedForward(width, hidden=int(c.expansion * width), activation=c.activation)
        self.around_feed_forward = wiring.around(width, dropout=c.dropout, epsilon=c.epsilon)

    def forward(self, x: Tensor) -> Tensor:
        x = self.around_attention(x, self.attention)
        return self.around_feed_forward(x, self.feed_forward)


class Merge(nn.Module):
    """Each 2 × 2 places become one of twice the width: x (B, R, C, M) → (B, ⌈R/2⌉, ⌈C/2⌉, 2 M)"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.output = Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        four = [x[:, row::2, column::2] for column in range(2) for row in range(2)]
        return self.output(self.norm(torch.cat(four, -1)))


class Swin(nn.Module):
    """pictures (B, channels, rows, columns) → logits (B, outputs)"""

    def __init__(self, config: SwinConfig, *, channels: int, rows: int, columns: int, outputs: int) -> None:
        super().__init__()
        c = config
        self.ends = list(accumulate(c.layers))  # the number of blocks up to the end of each stage
        self.sides = [Grid(-(-rows // c.patch), -(-columns // c.patch))]
        for _ in c.layers[1:]:
            self.sides.append(self.sides[-1].halved())
        self.embedding = Patches(channels, size=c.patch, width=c.width, dropout=c.dropout)
        share = c.stochastic_depth / max(self.ends[-1] - 1, 1)
        numbers = [(stage, number) for stage, layers in enumerate(c.layers) for number in range(layers)]
        self.blocks = nn.ModuleList(
            SwinBlock(c, c.width << stage, heads=c.heads[stage], shifted=number % 2 == 1, share=share * depth)
            for depth, (stage, number) in enumerate(numbers)
        )
        self.merges = nn.ModuleList(Merge(c.width << stage) for stage in range(len(c.layers) - 1))
        self.norm = nn.LayerNorm(c.width << len(self.merges), eps=c.epsilon)
        self.output = Linear(c.width << len(self.merges), outputs)
        start_normal(self)
        self.alignment = f"blocks.{self.ends[-1] - 1}.attention"

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.embedding(pictures).unflatten(1, (self.sides[0].rows, self.sides[0].columns))
        for number, block in enumerate(self.blocks, start=1):
            x = block(x)
            if number in self.ends[:-1]:
                x = self.merges[self.ends.index(number)](x)
        return self.output(self.norm(x).mean((1, 2)))

    def grids(self) -> Mapping[str, Grid]:
        return {side.name(self.sides[0]): side for side in self.sides}

    def looks(self, path: str) -> tuple[str, str]:
        stage = sum(int(path.split(".")[1]) >= end for end in self.ends)
        side = self.sides[stage].name(self.sides[0])
        return side, side
