"""The modules that read a text token by token, so that a head can stand on them.

B batch  L length  M width
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.layers.embedding import Embedding
from regard.models.facts import Pooling
from regard.special import Special


class Body(nn.Module, ABC):
    """The interface for heads, tasks and records. Facts that are known without weights belong to the config."""

    alignment = ""  # a body has no attention over a source
    lowest: ClassVar[tuple[str, ...]] = ("embedding.",)  # prefixes of parameters below the first layer

    heads: ClassVar[tuple[str, ...]] = ("output.",)  # prefixes of parameters above the last layer

    special: Special
    width: int  # width of the vector of a token
    layers: int  # number of layers
    embedding: Embedding
    output: nn.Linear | None  # linear map to the vocabulary

    @abstractmethod
    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        """A vector for each token: tokens (B, L) padded at the end, lengths (B,) → (B, L, M).

        Segments (B, L) are ignored by a body that does not tell them apart.
        """

    def pooled(self, hidden: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
        """One vector for each text: the first, the last or the mean of its tokens' vectors.   (B, L, M) → (B, M)"""
        if pooling == "pooler":
            raise RegardError('pooling="pooler" is for the kinds bert and xlnet; try "mean"')
        if pooling == "first":
            return hidden[:, 0]
        if pooling == "last":
            return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
        real = torch.arange(hidden.shape[1], device=hidden.device) < lengths.unsqueeze(1)  # (B, L)
        return (hidden * real.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1)

    def without_words(self) -> None:
        """Drop the output layer, which a head on the body makes useless."""
        del self.output

    def freeze_for_words(self) -> None:
        """Freeze the parameters that have no part in predicting words, before the body is trained to predict them."""
        return

    def layer_paths(self, layer: int) -> str:
        """A glob of the paths of the modules in one layer, from 0 on."""
        return f"*.{layer}.*"

    def reads_backwards(self, path: str) -> bool:
        """Whether the module at `path` reads a text from its end to its beginning."""
        return False

    def depth_of(self, name: str) -> int:
        """How deep the parameter of that name is: 0 below the first layer, n in layer n (from 1), layers + 1 above.

        A norm after the last layer counts as part of that layer.
        """
        if name.startswith(self.lowest):
            return 0
        for part in name.split("."):
            if part.isdigit():
                return int(part) + 1
        return self.layers if name.startswith("body.") else self.layers + 1
