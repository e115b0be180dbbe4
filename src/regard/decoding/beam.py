"""The best answers that a bounded number of hypotheses can find.

    score(y) = Σ_t log p(y_t | y_<t, x) / |y| ** length_penalty + coverage        |y| counts EOS

At each step the candidates of a source (every hypothesis alive, continued by every token) are ranked by Σ log p. Of the
best `beam`, those that end are finished; the best `beam` of those that do not end continue. A source is done when no
hypothesis alive can still be among its n_best, or, with early stopping, when it has `beam` finished ones.

A sources not yet done  K beam  N rows alive now, at most A · K  V vocabulary  C candidates  t tokens said so far
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.constraints import Constraints
from regard.decoding.coverage import Coverage
from regard.decoding.finished import Finished
from regard.decoding.protocol import Model, StateT
from regard.decoding.tree import Tree
from regard.decoding.vocabulary import largest, own, to_logprobs


def beam_search(
    model: Model[Any, StateT],
    state: StateT,
    source: Tensor,
    first: Tensor,
    *,
    config: DecodingConfig,
    constraints: Constraints,
    coverage: Coverage | None = None,
    tree: Tree | None = None,
) -> Finished:
    """Search from a state of one row for each source. source (B,): which source a row answers; first (B,): the token
    that the first step reads.

    `tree` grows with the search of a single source.
    """
    beams = Beams(source, first, config=config, constraints=constraints, coverage=coverage, tree=tree)
    while True:
        logits, state = model.step(beams.token, state)
        rows = beams.advance(logits)
        if not len(rows):
            return beams.finished
        if not torch.equal(rows, torch.arange(logits.shape[0], device=rows.device)):
            state = state.reorder(rows)


class Beams:
    """All hypotheses alive, as rows of a few tensors; rows of one source are neighbours, best first."""

    def __init__(
        self,
        source: Tensor,
        first: Tensor,
        *,
        config: DecodingConfig,
        constraints: Constraints,
        coverage: Coverage | None,
        tree: Tree | None,
    ) -> None:
        self.config, self.constraints, self.coverage, self.tree = config, constraints, coverage, tree
        self.eos = constraints.special.eos
        self.finished = Finished(self.eos)
        rows = len(source)
        self.source = source  # (A,) which source this is
        self.count = torch.zeros_like(source)  # (A,) answers finished so far
        self.best = torch.full((rows, config.n_best), -math.inf, device=source.device)  # (A, n_best) scores to beat
        self.place = torch.arange(rows, device=source.device) * config.beam  # (N,) of a row in the grid A · K
        self.token = first  # (N,)
        self.sums = self.best.new_zeros(rows)  # (N,) Σ log p
        self.said = source.new_empty(rows, 0)  # (N, t)
        self.logprobs = self.best.new_empty(rows, 0)  # (N, t)

    def advance(self, logits: Tensor) -> Tensor:
        """Choose the continuations after these logits (N, V); return the rows they continue, none when all are done."""
        length, beam = self.said.shape[1] + 1, self.config.beam
        row, token, logprob, total = self._candidates(logits)  # (A, C) each, best first
        ends = token == self.eos if length < self.config.max_length else torch.ones_like(token, dtype=torch.bool)
        possible = total > -math.inf
        over = (possible & ends)[:, :beam]
        self._finish(over, row[:, :beam], token[:, :beam], logprob[:, :beam], total[:, :beam])
        alive = possible & ~ends
        alive &= alive.cumsum(1) <= beam
        alive &= ~self._done(total.masked_fill(~alive, -math.inf).amax(1)).unsqueeze(1)
        if self.tree is not None:
            self.tree.grow([part[0] for part in (row, token, logprob, total)], alive[0], over[0])
        return self._go_on(alive, row, token, logprob, total)

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The best 2 K continuations of each source: row, token, log p of the token, Σ log p. (A, C) each.

        Of these at most K end, one for each row, so K remain that do not. For the same reason no row can contribute
        more than K + 1.
        """
        beam = self.config.beam
        scores = to_logprobs(own(logits))
        self.constraints.apply(scores, self.said, self.source[self.place // beam])
        logprobs, tokens = largest(scores, min(beam + 1, scores.shape[1]))  # (N, K + 1)
        width = logprobs.shape[1]
        grid = self.sums.unsqueeze(1) + logprobs
        full = len(grid) == len(self.source) * beam
        if not full:
            rows_alive, grid = grid, grid.new_full((len(self.source) * beam, width), -math.inf)
            grid[self.place] = rows_alive
        total, chosen = grid.view(-1, beam * width).topk(min(2 * beam, beam * width))
        row = torch.arange(0, grid.shape[0], beam, device=chosen.device).unsqueeze(1) + chosen // width
        if not full:
            row_at = self.place.new_zeros(grid.shape[0])
            row_at[self.place] = torch.arange(len(self.place), device=self.place.device)
            row = row_at[row]
        place = row * width + chosen % width
        return row, tokens.flatten()[place], logprobs.flatten()[place], total

    def _finish(self, over: Tensor, row: Tensor, token: Tensor, logprob: Tensor, total: Tensor) -> None:
        """Keep the answers that are over, and the scores to beat. (A, K) each."""
        if self.coverage is not None:
            self.coverage.look()
        if not over.any():
            return
        score = total / (self.said.shape[1] + 1) ** self.config.length_penalty
        if self.coverage is not None:
            score = score + self.coverage.penalties()[row]
        self.best = torch.cat([self.best, score.masked_fill(~over, -math.inf)], 1).topk(self.config.n_best).values
        self.count = self.count + over.sum(1)
        owner, rows = self.source.unsqueeze(1).expand_as(over)[over], row[over]
        said = torch.cat([self.said[rows], token[over].unsqueeze(1)], 1)
        logprobs = torch.cat([self.logprobs[rows], logprob[over].unsqueeze(1)], 1)
        self.finished.add(owner, score[over], said, logprobs)

    def _done(self, leader: Tensor) -> Tensor:
        """Which sources are done, given the largest Σ log p of their rows alive (A,), −∞ where there are none.

        No hypothesis alive can score better than leader / max_length ** length_penalty, its score if all further tokens
        were certain: log p and coverage are at most 0.
        """
        longest: float = self.config.max_length**self.config.length_penalty
        enough = self.config.beam if self.config.early_stopping else math.inf
        return (self.best[:, -1] >= leader / longest) | (self.count >= enough)

    def _go_on(self, alive: Tensor, row: Tensor, token: Tensor, logprob: Tensor, total: Tensor) -> Tensor:
        """Continue with the candidates alive, forget the sources that have none. (A, C) each → rows continued (N',)."""
        chosen = alive.flatten().nonzero().squeeze(1)
        rows, left = row.take(chosen), alive.any(1)
        rank = (left.cumsum(0) - 1).unsqueeze(1) * self.config.beam + alive.cumsum(1) - 1
        self.place, self.token, self.sums = rank.take(chosen), token.take(chosen), total.take(chosen)
        self.said = torch.cat([self.said[rows], self.token.unsqueeze(1)], 1)
        self.logprobs = torch.cat([self.logprobs[rows], logprob.take(chosen).unsqueeze(1)], 1)
        if not left.all():
            self.source, self.best, self.count = self.source[left], self.best[left], self.count[left]
        if self.coverage is not None:
            self.coverage.reorder(rows)
        return rows
