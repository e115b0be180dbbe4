"""Vision Transformer: a picture is a sequence of patches, read as BERT reads words.

    x_0 = [class ; patches] + P        x_l = block_l(x_{l−1})        logits = W norm(x_L)_class       Dosovitskiy 2021

| score | may look at | position | around it |
|---|---|---|---|
| scaled dot | everywhere; less with `attention` | `position` | `wiring` |

With patch = "conv" and pooling = "attention" it is a Compact Convolutional Transformer (Hassani 2021): small
convolutions make the patches, and attention with one learned query pools them, so that it learns from few pictures.

B batch  C channels  H height  W width  N patches  M width
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention.positions import Learned, Position, Sinusoidal
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.blocks import Block, Stack
from regard.layers.feed_forward import FeedForward
from regard.layers.initial import start_normal
from regard.layers.patches import AttentionPooling, Convolved, Cut, PatchEmbedding
from regard.layers.wiring import EPSILON, StochasticDepth, WiringName
from regard.layers.wiring import build as build_wiring
from regard.models.facts import Grid, PictureConfig
from regard.models.long import LongAttention

OF_PATCHES: dict[str, tuple[str, ...]] = {"cut": ("patch_size",), "conv": ("convolutions", "kernel", "first")}


class ViTConfig(LongAttention, PictureConfig):
    kind: Literal["vit"] = "vit"
    layers: PositiveInt = 6
    width: PositiveInt = 192
    heads: PositiveInt = 3
    hidden: PositiveInt | None = None  # width of the feed-forward layers; 4 × width unless given
    patch: Literal["cut", "conv"] = "cut"  # how patches are made
    patch_size: PositiveInt | None = None  # cut: pixels of a side of a patch; 4
    convolutions: PositiveInt | None = None  # conv: how many; each halves both sides; 2
    kernel: PositiveInt | None = None  # conv: pixels of a side; 3
    first: PositiveInt | None = None  # conv: channels of all but the last; 64
    pooling: Literal["class", "mean", "attention"] = "class"  # how one vector is made of all patches
    position: Literal["learned", "sinusoidal", "none"] = "learned"
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "gelu"
    wiring: WiringName = "pre_norm"
    epsilon: PositiveFloat = EPSILON  # of the norms
    bias: bool = True  # of queries, keys, values and the output of attention
    stochastic_depth: float = Field(default=0.0, ge=0, lt=1)  # of the last layer; less below, 0 in the first
    attention: Literal["exact", "linformer", "performer"] = "exact"

    @model_validator(mode="after")
    def _of_its_patches(self) -> Self:
        for form, names in OF_PATCHES.items():
            for name in names:
                if form != self.patch and getattr(self, name) is not None:
                    raise RegardError(f'{name} is a setting of patch = "{form}"; leave it out, or choose that')
        return self

    def patches(self, channels: int) -> Cut | Convolved:
        if self.patch == "cut":
            return Cut(channels, size=self.patch_size or 4, width=self.width)
        sizes = {"convolutions": self.convolutions or 2, "kernel": self.kernel or 3, "first": self.first or 64}
        return Convolved(channels, width=self.width, **sizes)


class ViT(nn.Module):
    """pictures (B, C, H, W) → logits (B, outputs)"""

    def __init__(self, config: ViTConfig, *, channels: int, rows: int, columns: int, outputs: int) -> None:
        super().__init__()
        width, layers, numbers = config.width, config.layers, count()
        patches, token = config.patches(channels), config.pooling == "class"
        self.grid = Grid(*patches.grid(rows, columns), extra=("[class]",) if token else ())
        tokens = self.grid.rows * self.grid.columns + token
        if tokens == int(token):
            raise RegardError(f"a picture of {columns} × {rows} pixels has not one patch; choose a smaller patch_size")

        def block() -> Block:
            layer = next(numbers)
            share = config.stochastic_depth * layer / max(layers - 1, 1)
            return Block(
                attention=config.heads_of(
                    config.attention,
                    width,
                    heads=config.heads,
                    causal=False,
                    layer=layer,
                    maximum=tokens,
                    bias=config.bias,
                ),
                feed_forward=FeedForward(width, hidden=config.hidden or 4 * width, activation=config.activation),
                wiring=StochasticDepth(wiring, share) if share else wiring,
                width=width,
                dropout=config.dropout,
                epsilon=config.epsilon,
            )

        wiring = build_wiring(config.wiring, layers=layers)
        position: Position = Learned(tokens, width=width) if config.position == "learned" else Position()
        position = Sinusoidal() if config.position == "sinusoidal" else position
        self.embedding = PatchEmbedding(patches, width=width, token=token, position=position, dropout=config.dropout)
        self.body = Stack(layers, block, wiring=wiring, width=width, epsilon=config.epsilon)
        self.pooling = config.pooling
        self.pool = AttentionPooling(width) if config.pooling == "attention" else None
        self.output = Linear(width, outputs)
        self.alignment = "pool" if self.pool is not None else f"body.blocks.{layers - 1}.attention"
        start_normal(self)
        wiring.initialise(self.body)

    def grids(self) -> Mapping[str, Grid]:
        return {"source": self.grid}

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which; the label looks at what is pooled."""
        return ("target" if path == "pool" else "source"), "source"

    def forward(self, pictures: Tensor) -> Tensor:
        hidden = self.body(self.embedding(pictures))  # (B, N or 1 + N, M)
        if self.pool is not None:
            return self.output(self.pool(hidden))
        return self.output(hidden[:, 0] if self.pooling == "class" else hidden.mean(1))
