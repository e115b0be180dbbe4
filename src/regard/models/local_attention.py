"""A residual network whose convolutions over space are local attention (Ramachandran 2019).

    x ← relu(x′ + W₂ relu(attention(relu(W₁ x))))        each pixel looks at the k × k pixels around it
    logits = W mean(x)

The first convolution stays, as in the paper: on raw pixels it works better than attention. Where a stage has half the
rows and columns of the one before, the mean of each 2 × 2 results of the attention is taken.
"""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.local_attention import LocalAttention
from regard.layers.residual import bottlenecks, stem
from regard.models.facts import Grid, PictureConfig


class LocalAttentionConfig(PictureConfig):
    """[model] of kind = "local_attention"."""

    kind: Literal["local_attention"] = "local_attention"
    width: PositiveInt = 16  # of the attention of the first stage; there are 4 times as many channels between blocks
    layers: list[PositiveInt] = Field(default=[1, 2, 2], min_length=1)  # blocks of each stage
    heads: PositiveInt = 4
    extent: PositiveInt = 7  # k
    stride: PositiveInt = 2  # pixels from one place of the first stage to the next

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.width % self.heads or self.width // self.heads < 2:
            raise RegardError(f"heads = {self.heads} must divide width = {self.width} into parts of 2 or more")
        return self


class LocalAttentionNetwork(nn.Module):
    """pictures (B, channels, rows, columns) → logits (B, outputs)"""

    def __init__(self, config: LocalAttentionConfig, *, channels: int, rows: int, columns: int, outputs: int) -> None:
        super().__init__()
        c = config
        self.stem = stem(channels, c.width, stride=c.stride)
        made = bottlenecks(
            c.layers, c.width, lambda width: LocalAttention(width, width=width, heads=c.heads, extent=c.extent)
        )
        blocks = [block for _, block in made]
        self.blocks = nn.ModuleList(blocks)
        self.dropout = Dropout(c.dropout)
        self.output = Linear(blocks[-1].channels, outputs)
        side, self.sides = Grid(-(-rows // c.stride), -(-columns // c.stride)), list[Grid]()  # where each block looks
        for block in blocks:
            self.sides.append(side)
            side = side.halved() if block.halve else side
        self.alignment = f"blocks.{len(blocks) - 1}.spatial"

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.stem(pictures)
        for block in self.blocks:
            x = block(x)
        return self.output(self.dropout(x.mean((2, 3))))

    def grids(self) -> Mapping[str, Grid]:
        return {side.name(self.sides[0]): side for side in self.sides}

    def looks(self, path: str) -> tuple[str, str]:
        name = self.sides[int(path.split(".")[1])].name(self.sides[0])
        return name, name
