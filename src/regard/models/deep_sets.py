"""Sets in, numbers out: the order of the elements changes nothing (Zaheer 2017, theorem 2; Lee 2019).

    y = ρ( pool_i encoder(φ(x_1), …, φ(x_n))_i )

φ and ρ are small networks with ReLU; φ treats each element alone. `pooling` is the sum, the mean or the maximum of the
elements, or attention of one learned vector over them (PMA). With `encoder`, elements look at each other before they
are pooled: `sab` at all of them, `isab` through `inducing` learned vectors. With an encoder and attention pooling, this
is the Set Transformer.

B batch  N elements of the largest set  F numbers of an element  M width  O outputs
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.sets import AttentionPool, InducedBlock, NormOfSets, Pool, SetBlock
from regard.models.facts import ModelConfig
from regard.special import PAD


class DeepSetsConfig(ModelConfig):
    """[model] of kind deep_sets."""

    kind: Literal["deep_sets"] = "deep_sets"
    width: PositiveInt = 64
    layers: PositiveInt = Field(3, description="linear maps of φ, before elements meet")
    encoder: Literal["none", "sab", "isab"] = Field("none", description="how elements look at each other")
    encoder_layers: PositiveInt = Field(2, description="layers of the encoder")
    inducing: PositiveInt = Field(16, description="learned vectors of each layer of isab")
    pooling: Literal["sum", "mean", "max", "attention"] = "max"
    output_layers: PositiveInt = Field(2, description="linear maps of ρ, after pooling")
    heads: PositiveInt = Field(4, description="of every attention")
    norm: NormOfSets = Field("none", description="of every attention")
    dropout: float = Field(0.0, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if (self.encoder != "none" or self.pooling == "attention") and self.width % self.heads:
            raise ValueError(f"heads={self.heads} does not divide width={self.width}; change one of them")
        return self


class DeepSets(nn.Module):
    """elements (B, N, F) numbers or (B, N) ids, lengths (B,) → (B, O).

    With a `vocabulary` elements are ids, of which 0 is unknown; without, they are `features` numbers each.
    """

    def __init__(
        self, config: DeepSetsConfig, *, vocabulary: int | None = None, features: int = 1, outputs: int = 1
    ) -> None:
        super().__init__()
        width, dropout = config.width, config.dropout
        self.inducing = config.inducing if config.encoder == "isab" else 0
        self.element = Linear(features, width) if vocabulary is None else Embedding(vocabulary, width, padding=PAD)
        self.phi = nn.Sequential(
            *(part for _ in range(config.layers - 1) for part in (nn.ReLU(), Dropout(dropout), Linear(width, width)))
        )
        self.encoder = nn.ModuleList(_encoder_layers(config))
        if config.pooling == "attention":
            self.pool: nn.Module = AttentionPool(width, heads=config.heads, norm=config.norm, dropout=dropout)
        else:
            self.pool = Pool(config.pooling)
        self.alignment = "pool.block.attention" if config.pooling == "attention" else "pool"
        before = range(config.output_layers - 1)
        self.rho = nn.Sequential(
            *(part for _ in before for part in (Linear(width, width), nn.ReLU(), Dropout(dropout))),
            Linear(width, outputs),
        )

    def forward(self, elements: Tensor, lengths: Tensor) -> Tensor:
        x = self.phi(self.element(elements))  # (B, N, M)
        for layer in self.encoder:
            x = layer(x, lengths)
        return self.rho(self.pool(x, lengths))

    def looks(self, path: str) -> tuple[str, str]:
        """The side that the attention at a path looks from, and the side it looks at."""
        if path.startswith("pool"):
            return "pooled", "source"
        if ".gather." in path:
            return "inducing", "source"
        return "source", "inducing" if ".spread." in path else "source"


def _encoder_layers(config: DeepSetsConfig) -> Iterator[nn.Module]:
    count = 0 if config.encoder == "none" else config.encoder_layers
    for _ in range(count):
        if config.encoder == "sab":
            yield SetBlock(config.width, heads=config.heads, norm=config.norm, dropout=config.dropout)
        else:
            yield InducedBlock(
                config.width, heads=config.heads, inducing=config.inducing, norm=config.norm, dropout=config.dropout
            )
