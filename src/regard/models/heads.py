"""The head on a body that reads a text: one linear map, for the whole text or for each token.

    text     y = W dropout(pool(h)) + b         Devlin 2019, figure 4 (a) and (b); Radford 2018, figure 1
    token    y_t = W dropout(h_t) + b           (c) and (d)

B batch  L length  M width  C classes
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.initial import start_normal
from regard.layers.padding import row_lengths
from regard.models import from_config
from regard.models.body import Body
from regard.models.facts import BodyConfig, Pooling
from regard.special import Special

ENCODER = "encoder."  # prefix of the body's parameters and modules


def headed(config: BodyConfig, *, classes: int, pooled: bool, vocabulary: int | None = None) -> Headed:
    """A body with a head for `classes` classes: of each text if `pooled`, otherwise of each token."""
    encoder = from_config(config, vocabulary=vocabulary)
    return Headed(encoder, classes=classes, pooling=config.pools() if pooled else None, dropout=config.dropout)


def body_of(module: nn.Module) -> Body:
    """The body of a module that is a body or has a head on one."""
    found = module.encoder if isinstance(module, Headed) else module
    assert isinstance(found, Body)
    return found


def pooling_of(module: nn.Module) -> str:
    """How the head of a module pools a text; empty if it reads each token."""
    return (module.pooling or "") if isinstance(module, Headed) else ""


class Headed(nn.Module):
    """tokens (B, L) → logits (B, C) of the whole text if it is pooled, and otherwise (B, L, C) of each token."""

    alignment = ""

    def __init__(self, encoder: Body, *, classes: int, pooling: Pooling | None, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        encoder.without_words()
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.output = Linear(encoder.width, classes)
        start_normal(self.output)

    @property
    def special(self) -> Special:
        """The body's special ids."""
        return self.encoder.special

    @property
    def embedding(self) -> Embedding:
        """The body's embedding."""
        return self.encoder.embedding

    @property
    def layers(self) -> int:
        """How many layers the body has."""
        return self.encoder.layers

    def layer_paths(self, layer: int) -> str:
        """As `Body.layer_paths`."""
        return self.encoder.layer_paths(layer)

    def reads_backwards(self, path: str) -> bool:
        """As `Body.reads_backwards`."""
        return self.encoder.reads_backwards(path.removeprefix(ENCODER))

    def depth_of(self, name: str) -> int:
        """As `Body.depth_of`; the head is above the last layer."""
        if name.startswith(ENCODER):
            return self.encoder.depth_of(name.removeprefix(ENCODER))
        return self.layers + 1

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """tokens (B, L) padded at the end, segments (B, L) from 0 on, where the body tells them apart."""
        lengths = row_lengths(tokens, lengths, pad=self.special.pad)
        hidden = self.encoder.states(tokens, lengths, segments)
        if self.pooling is not None:
            hidden = self.encoder.pooled(hidden, lengths, self.pooling)
        return self.output(self.dropout(hidden))
