"""ELMo: two recurrent language models, one in each direction, whose layers are features of a word in context.

    →h_j,t = lstm_j(→h_j,t−1, →h_{j−1},t)        P(u_{t+1} | u_≤t) = softmax(W →h_L,t + b)
    ←h_j,t = lstm_j(←h_j,t+1, ←h_{j−1},t)        P(u_{t−1} | u_≥t) = softmax(W ←h_L,t + b)
    h_0,t = [E[u_t] ; E[u_t]]     h_j,t = [→h_j,t ; ←h_j,t]     features_t = γ Σ_j s_j h_j,t,   s = softmax(w)

Peters 2018, with tokens where the paper reads characters. Both directions share E, W and b; from the second on, a layer
adds its input to its output. γ and w are trained together with the head that uses the features.

B batch  L length  M width of a direction  V vocabulary
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, tied_output
from regard.layers.padding import row_lengths
from regard.layers.recurrent import Cell, Recurrent
from regard.models.body import Body
from regard.models.facts import BodyConfig, LearnsWords


class ElmoConfig(BodyConfig):
    kind: Literal["elmo"] = "elmo"
    layers: PositiveInt = 2  # in each direction
    width: PositiveInt = 512  # width of each direction, and of the embeddings
    cell: Cell = "lstm"
    tied: bool = True  # output = embedding
    pooling: Literal["first", "mean"] | None = None

    learns_words: ClassVar[LearnsWords] = "two_way"
    frozen_under_a_head: ClassVar[bool] = True  # Peters 2018: the features are fixed, their mix is learned

    def says_words(self) -> bool:
        return True


class Mix(nn.Module):
    """γ Σ_j s_j h_j, s = softmax(w): layers, each (B, L, M) → (B, L, M).   Starts as their mean."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: list[Tensor]) -> Tensor:
        shares = self.weights.softmax(0)
        return self.scale * sum(share * layer for share, layer in zip(shares, layers, strict=True))


class Elmo(Body):
    """tokens (B, L) → features (B, L, 2 M). As language models, `both_ways` gives each direction's last layer."""

    def __init__(self, config: ElmoConfig, *, vocabulary: int) -> None:
        super().__init__()
        width = config.width
        self.special, self.width, self.layers = config.special, 2 * width, config.layers
        self.embedding = Embedding(vocabulary, width, scale=False, dropout=config.dropout, padding=config.special.pad)
        self.forward_layers = self._stack(config)
        self.backward_layers = self._stack(config)
        self.dropout = Dropout(config.dropout)
        self.mix = Mix(config.layers + 1)
        self.output = tied_output(self.embedding, bias=True) if config.tied else Linear(width, vocabulary)

    @staticmethod
    def _stack(config: ElmoConfig) -> nn.ModuleList:
        return nn.ModuleList(Recurrent(config.cell, config.width, width=config.width) for _ in range(config.layers))

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the gates at `path` look from, and at which."""
        return "source", "source"

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The features of each token: tokens (B, L) padded at the end → (B, L, 2 M)"""
        there, back = self._run(tokens, lengths)
        return self.mix([torch.cat(pair, dim=-1) for pair in zip(there, back, strict=True)])

    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        return self(tokens, lengths)

    def freeze_for_words(self) -> None:
        self.mix.requires_grad_(False)  # the mix is trained later, with the head that uses the features

    def layer_paths(self, layer: int) -> str:
        return f"*_layers.{layer}.*"

    def reads_backwards(self, path: str) -> bool:
        return "backward_layers" in path.split(".")

    def both_ways(self, tokens: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The input of `output`: the state of each direction after it has read a token, →h_L and ←h_L (B, L, M).

        The first predicts the next token, the second the one before.
        """
        there, back = self._run(tokens, lengths)
        return self.dropout(there[-1]), self.dropout(back[-1])

    def _run(self, tokens: Tensor, lengths: Tensor | None) -> tuple[list[Tensor], list[Tensor]]:
        """Every layer of both directions, the embedding first: (B, L, M) each, in the order of the text."""
        lengths = row_lengths(tokens, lengths, pad=self.special.pad).clamp(min=1)
        x = self.embedding(tokens)
        there = self._layers(self.forward_layers, x, lengths)
        turned = self._layers(self.backward_layers, _turn(x, lengths), lengths)
        return there, [_turn(layer, lengths) for layer in turned]

    def _layers(self, stack: nn.ModuleList, x: Tensor, lengths: Tensor) -> list[Tensor]:
        layers = [x]
        for number, recurrent in enumerate(stack):
            y, _ = recurrent(self.dropout(x) if number else x, lengths)
            x = x + y if number else y
            layers.append(x)
        return layers


def _turn(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the tokens of each row; padding stays where it is. (B, L, M) → (B, L, M)"""
    at = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    ends = lengths.unsqueeze(1)
    order = torch.where(at < ends, ends - 1 - at, at)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))
