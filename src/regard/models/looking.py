"""A recurrent decoder that looks before each word, as captions need it (Xu 2015, section 3.1).

    z_t = β_t Σ_i w_ti a_i,   w_t = softmax_i score(h_{t−1}, a_i),   β_t = σ(u · h_{t−1})
    h_t = lstm(h_{t−1}, [y_{t−1} ; z_t])
    o_t = tanh(W [h_t ; z_t])

    even = λ adds λ Σ_i (1 − Σ_t w_ti)² to the loss of a caption: no place is left out

B batch  S places  T target length  M width
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention.exact import masked_softmax
from regard.attention.patterns import Padding
from regard.kernels.linear import Linear
from regard.layers.penalty import penalise, penalised
from regard.layers.recurrent import Recurrent
from regard.models.choice import Glance, Hard, Rollout, Soft
from regard.models.seq2seq import Decoder, Memory, State


class Looking(Decoder):
    """First the context, which h_{t−1} asks for and β_t scales; then the cell, which reads it."""

    def __init__(self, cells: Recurrent, *, attention: Soft | Hard, readout: nn.Linear, even: float) -> None:
        super().__init__(cells, attention=attention, readout=readout)
        self.score = attention.score
        self.gate = Linear(readout.out_features, 1)
        self.even = even

    def look(self, query: Tensor, memory: Memory) -> Glance:
        context, draw = super().look(query, memory)
        return Glance(torch.sigmoid(self.gate(query)) * context, draw)

    def forward(self, y: Tensor, state: State, counted: Tensor) -> tuple[Rollout, State]:
        """y (B, T, M) embedded; counted (B, T) is False where y is padding."""
        queries, states, contexts, draws = [], [], [], []
        cells = state.cells
        for y_t in y.unbind(1):
            queries.append(cells.hidden[-1].unsqueeze(1))
            context, draw = self.look(queries[-1], state.memory)
            s, cells = self.cells.step(torch.cat([y_t, context.squeeze(1)], dim=-1), cells)
            states.append(s)
            contexts.append(context)
            draws.append(draw)
        if self.even and penalised():
            penalise(self.even * self._unevenness(torch.cat(queries, dim=1), state.memory, counted) / counted.sum())
        hidden = self.read_out(torch.stack(states, dim=1), torch.cat(contexts, dim=1))
        return Rollout(hidden, torch.cat(draws, dim=1), lasting=True), replace(state, cells=cells)

    def _unevenness(self, queries: Tensor, memory: Memory, counted: Tensor) -> Tensor:
        """Σ_i (1 − Σ_t w_ti)², summed over the batch: queries (B, T, M) → a number"""
        logits = self.score.matrix(self.score.queries(queries.unsqueeze(1)), memory.keys)  # (B, 1, T, S)
        allowed = Padding(memory.lengths).dense(*logits.shape[-2:], device=logits.device)
        looked = (masked_softmax(logits, allowed).squeeze(1) * counted.unsqueeze(-1)).sum(1)  # (B, S)
        return (1 - looked).square().sum()
