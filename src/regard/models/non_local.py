"""A residual convolutional network with non-local blocks, in which every place looks at all places (Wang 2018).

x ← relu(x′ + block(x))        He 2016; from stage to stage, twice the channels and half the rows and columns
x_i ← x_i + W_z Σ_j f(x_i, x_j) g(x_j) / c        after the first block of the stages in `look`
logits = W mean(x)
"""

from collections.abc import Iterable, Mapping
from typing import Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.feature_map import NonLocal, NonLocalScore
from regard.layers.residual import Basic, Bottleneck, basics, bottlenecks, stem
from regard.models.facts import Grid, PictureConfig


class NonLocalConfig(PictureConfig):
    """[model] of kind = "non_local"."""

    kind: Literal["non_local"] = "non_local"
    width: PositiveInt = 16  # channels of the 3 × 3 convolutions of the first stage; a bottleneck gives 4 times as many
    blocks: Literal["bottleneck", "basic"] = "bottleneck"
    layers: list[PositiveInt] = Field(default=[2, 2, 2], min_length=1)  # blocks of each stage
    look: list[PositiveInt] = Field(default=[2, 3], min_length=1)  # stages with a non-local block, from 1
    score: NonLocalScore = "embedded_gaussian"
    pool: bool = False  # whether keys are the maximum of each 2 × 2 places
    stride: PositiveInt = 1  # pixels from one place of the first stage to the next

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if max(self.look) > len(self.layers):
            raise RegardError(f"look = {self.look}: layers = {self.layers} has {len(self.layers)} stages")
        return self


class NonLocalNetwork(nn.Module):
    """pictures (B, channels, rows, columns) → logits (B, outputs)"""

    def __init__(self, config: NonLocalConfig, *, channels: int, rows: int, columns: int, outputs: int) -> None:
        super().__init__()
        c = config
        self.pool, self.looking = c.pool, dict[int, Grid]()  # the number of each non-local block, and where it looks
        self.stem = stem(channels, c.width, stride=c.stride)
        self.blocks = nn.ModuleList()
        side, at = Grid(-(-rows // c.stride), -(-columns // c.stride)), 0
        for stage, block in _blocks(c):
            begins = stage > at or not self.blocks
            side, at = side.halved() if stage > at else side, stage
            self.blocks.append(block)
            if begins and stage + 1 in c.look:
                self.looking[len(self.blocks)] = side
                self.blocks.append(NonLocal(block.channels, score=c.score, pool=c.pool))
        self.dropout = Dropout(c.dropout)
        self.output = Linear(block.channels, outputs)
        self.alignment = f"blocks.{max(self.looking)}"

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.stem(pictures).contiguous(memory_format=torch.channels_last)  # faster convolutions on CPUs and GPUs
        for block in self.blocks:
            x = block(x)
        return self.output(self.dropout(x.mean((2, 3))))

    def grids(self) -> Mapping[str, Grid]:
        seen = [each for side in self.looking.values() for each in (side, self._keys(side))]
        return {side.name(seen[0]): side for side in seen}

    def looks(self, path: str) -> tuple[str, str]:
        source = next(iter(self.looking.values()))
        side = self.looking[int(path.split(".")[1])]
        return side.name(source), self._keys(side).name(source)

    def _keys(self, side: Grid) -> Grid:
        return side.halved() if self.pool else side


def _blocks(config: NonLocalConfig) -> Iterable[tuple[int, Basic | Bottleneck]]:
    if config.blocks == "basic":
        return basics(config.layers, config.width)
    return bottlenecks(config.layers, config.width, lambda width: nn.Conv2d(width, width, 3, padding=1))
