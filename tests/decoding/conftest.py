"""Tiny models made by hand, on the step protocol alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from regard.attention.recorder import deliver, watching
from regard.decoding.protocol import source_lengths
from regard.special import OWN


@dataclass
class Rows:
    """A state that is a few tensors with a row each."""

    tensors: tuple[Tensor, ...]

    def reorder(self, rows: Tensor) -> Rows:
        return Rows(tuple(tensor[rows] for tensor in self.tensors))


class Table:
    """Logits of what follows two tokens, from a table (sources, V, V, V), and of a position, from drift (positions, V).

    The first token of a source is its place in the table. Positions matter so that no two answers have the same score.
    """

    special = OWN
    alignment = ""

    def __init__(self, table: Tensor, drift: Tensor) -> None:
        self.table, self.drift = table, drift
        self.asked: list[int] = []

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return source[:, 0]

    def start(self, memory: Tensor) -> Rows:
        return Rows((memory, torch.zeros_like(memory), torch.zeros_like(memory)))

    def step(self, token: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        source, before, position = state.tensors
        self.asked.append(len(token))
        return self.table[source, before, token] + self.drift[position], Rows((source, token, position + 1))


class Look(nn.Module):
    def forward(self, query: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        scores = (memory @ query.unsqueeze(-1)).squeeze(-1)
        beyond = torch.arange(memory.shape[1]) >= lengths.unsqueeze(1)
        weights = scores.masked_fill(beyond, -torch.inf).softmax(-1)
        if watching():
            deliver(weights[:, None, None])
        return (weights.unsqueeze(1) @ memory).squeeze(1)


class Attentive(nn.Module):
    """A recurrent network that looks at its source: s_t = tanh(W [s_{t−1}, E y_{t−1}, context])."""

    special = OWN
    alignment = "look"

    def __init__(self, vocabulary: int, width: int = 11) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.look = Look()
        self.cell = nn.Linear(3 * width, width)
        self.output = nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(0.5)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=1.3)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.embed(source), source_lengths(source, lengths)

    def start(self, memory: tuple[Tensor, Tensor]) -> Rows:
        return Rows((*memory, torch.zeros_like(memory[0][:, 0])))

    def _hidden(self, token: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        memory, lengths, hidden = state.tensors
        context = self.look(hidden, memory, lengths)
        hidden = torch.tanh(self.cell(torch.cat([hidden, self.embed(token), context], -1)))
        return self.dropout(hidden), Rows((memory, lengths, hidden))

    def step(self, token: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        hidden, state = self._hidden(token, state)
        return self.output(hidden), state

    def forward(self, source: Tensor, lengths: Tensor | None, target_in: Tensor) -> Tensor:
        state, hidden = self.start(self.encode(source, lengths)), []
        for token in target_in.unbind(1):
            now, state = self._hidden(token, state)
            hidden.append(now)
        return torch.stack(hidden, 1)


def random_table(seed: int, *, vocabulary: int, sources: int = 1) -> Table:
    generator = torch.Generator().manual_seed(seed)
    table = 2 * torch.randn(sources, vocabulary, vocabulary, vocabulary, generator=generator)
    return Table(table, torch.randn(101, vocabulary, generator=generator))


@pytest.fixture
def table() -> Callable[..., Table]:
    """table(seed, vocabulary=, sources=) → a random Table."""
    return random_table


@pytest.fixture
def attentive() -> Callable[..., Attentive]:
    """attentive(seed, vocabulary) → a random Attentive."""

    def build(seed: int, vocabulary: int) -> Attentive:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return Attentive(vocabulary).double()

    return build
