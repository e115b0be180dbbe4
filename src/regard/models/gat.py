"""Graph attention network: each layer is attention of every node over its neighbours, and nothing else.

    h⁰ = x        h^l = ELU( ‖_k GAT_k(h^{l−1}) )   for the hidden layers, K heads side by side
                  y   = (1/K′) Σ_k GAT_k(h^L)       the output layer, the mean of K′ heads       Veličković 2018, 2.1

    `score = "gatv2"` takes the score of Brody 2022.

N nodes  F features  E edges  C outputs
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError
from regard.kernels.sparse import Cells
from regard.layers.graph import Features, GraphAttention, GraphScore
from regard.models.facts import ModelConfig

Share = Field(default=0.6, ge=0.0, lt=1.0)


class GATConfig(ModelConfig):
    kind: Literal["gat"] = "gat"
    hidden_layers: PositiveInt = 1  # the output layer comes after them
    width: PositiveInt = 64  # of a hidden layer, all heads together
    heads: PositiveInt = 8
    output_heads: PositiveInt = 1  # of the output layer
    score: GraphScore = "gat"
    dropout: float = Share  # on the features that a layer reads
    attention_dropout: float = Share  # on the weights
    value_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # on the projected features that the weights mix
    dropout_by_head: bool = False  # each head drops features of its own, and not all heads the same
    residual: bool = False  # a layer adds the features that it reads to its result

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % self.heads:
            raise RegardError(
                f"width={self.width} cannot be divided among heads={self.heads}; try width={8 * self.heads}"
            )
        return self


class GAT(nn.Module):
    """features (N, F), dense or sparse, and the cells (N, N) that say which node looks at which → (N, C)"""

    alignment = ""

    def __init__(self, config: GATConfig, *, features: int, outputs: int) -> None:
        super().__init__()
        widths = [features, *[config.width] * config.hidden_layers]

        def layer(at: int, width: int, heads: int, *, concatenate: bool) -> GraphAttention:
            return GraphAttention(
                widths[at],
                width,
                heads=heads,
                score=config.score,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                value_dropout=config.value_dropout,
                dropout_by_head=config.dropout_by_head,
                residual=config.residual,
                concatenate=concatenate,
            )

        hidden = [
            layer(at, config.width // config.heads, config.heads, concatenate=True)
            for at in range(config.hidden_layers)
        ]
        output = layer(config.hidden_layers, outputs, config.output_heads, concatenate=False)
        self.layers = nn.ModuleList([*hidden, output])

    @property
    def hops(self) -> int:
        """How many edges away the nodes are that an output depends on."""
        return len(self.layers)

    @property
    def embedding(self) -> nn.Module:
        """The module that turns the features of each node into a vector (1, N, M)."""
        embedding: nn.Module = self.layers[0].get_submodule("project")
        return embedding

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which."""
        return "source", "source"

    def forward(self, x: Features, cells: Cells) -> Tensor:
        *hidden, output = self.layers
        for layer in hidden:
            x = F.elu(layer(x, cells))
        return output(x, cells)
