"""A recurrent language model: everything read so far is one state.

    h_t = cell(h_{t−1}, E[u_t])        P(u_{t+1} | u_≤t) = softmax(W h_t + b)        Mikolov 2010, Zaremba 2014

With `tied`, W is E (Press 2017), so that a state is as wide as an embedding. Dropout is applied to the input and
output of the recurrent layers and between them, never to the state that goes through time.

B batch  T length  M width  V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, tied_output
from regard.layers.recurrent import Cell, Recurrent, RecurrentState
from regard.models.body import Body
from regard.models.facts import BodyConfig, Pooling
from regard.models.prompt import Prompt

SPREAD = 0.1  # embeddings and output start uniform between −0.1 and 0.1


class RNNConfig(BodyConfig):
    kind: Literal["rnn"] = "rnn"
    layers: PositiveInt = 2
    width: PositiveInt = 650
    embedding: PositiveInt | None = None  # width of the embeddings; as `width` unless given
    cell: Cell = "lstm"
    dropout: float = Field(default=0.5, ge=0.0, lt=1.0)
    tied: bool = True  # output = embedding
    pooling: Literal["last", "mean"] | None = None

    carries: ClassVar[bool] = True

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.tied and self.embedding not in (None, self.width):
            raise RegardError(
                f"tied=true needs embedding={self.embedding} as wide as width={self.width}; or set tied=false"
            )
        return self

    def pools(self) -> Pooling:
        return self.pooling or "last"


@dataclass(frozen=True)
class State:
    """The state of the recurrent layers; None before the first token."""

    cells: RecurrentState | None

    def reorder(self, rows: Tensor) -> State:
        """The state of these rows, in this order."""
        return State(None if self.cells is None else self.cells.reorder(rows))


class RNN(Body):
    """Recurrent language model with the step protocol; its source is a prompt to continue."""

    output: nn.Linear

    def __init__(self, config: RNNConfig, *, vocabulary: int) -> None:
        super().__init__()
        embedding, dropout = config.embedding or config.width, config.dropout
        self.special, self.width, self.layers = config.special, config.width, config.layers
        self.embedding = Embedding(vocabulary, embedding, dropout=dropout, scale=False, padding=config.special.pad)
        self.body = Recurrent(config.cell, embedding, width=config.width, layers=config.layers, dropout=dropout)
        self.dropout = Dropout(dropout)
        self.output = tied_output(self.embedding, bias=True) if config.tied else Linear(config.width, vocabulary)
        with torch.no_grad():
            for table in (self.embedding.table.weight, self.output.weight):  # one and the same if tied
                nn.init.uniform_(table, -SPREAD, SPREAD)
            nn.init.zeros_(self.output.bias)

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the gates at `path` look from, and at which."""
        return "target", "target"

    def forward(self, tokens: Tensor) -> Tensor:
        """A vector for each token, given all before it: tokens (B, T) → h (B, T, M), the input of `output`."""
        return self.read(tokens, None)[0]

    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        return self(tokens)  # a token never reads the padding after it

    def read(self, tokens: Tensor, state: RecurrentState | None) -> tuple[Tensor, RecurrentState]:
        """Continue from a state, as from one block of a text to the next: tokens (B, T) → h (B, T, M), last state.

        No gradient flows into an earlier block whose state was detached: `state.detach()`.
        """
        hidden, after = self.body(self.embedding(tokens), state=state)
        return self.dropout(hidden), after

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Prompt:
        """A prompt (B, S), padded at the end; lengths (B,) are counted from the padding unless given."""
        return Prompt.of(source, lengths, special=self.special)

    def first(self, memory: Prompt) -> Tensor:
        """The input of the first step: the last token of each prompt (B,)."""
        return memory.last

    def start(self, memory: Prompt) -> State:
        """The state before the last token of each prompt; for a prompt of one token, the initial state."""
        if memory.tokens.shape[1] == 1:
            return State(None)
        before = memory.lengths - 1
        _, cells = self.body(self.embedding(memory.tokens[:, :-1]), before.clamp(min=1))
        return State(cells.where((before > 0).unsqueeze(1)))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """The logits (B, V) of the token that follows `token` (B,), and the state after it."""
        hidden, cells = self.body.step(self.embedding(token.unsqueeze(1)).squeeze(1), state.cells)
        return self.output(self.dropout(hidden)), State(cells)
