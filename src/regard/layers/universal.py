"""One block applied again and again, for each position as often as it needs: the Universal Transformer.

    x ← block(x + P^t)        t = 1 … T, P^t says where a position stands and how often the block was applied
                                                                                            Dehghani 2019, 2.1
With halting (adaptive computation time, Graves 2016), a position stops after N steps, when its probabilities of halting
sum to nearly one, and its state is copied from then on:

    p_t = σ(w·x_t + b)        N = min{n : p_1 + … + p_n ≥ threshold}, at most T
    w_t = p_t for t < N,  w_N = R = 1 − Σ_{t<N} p_t        out = Σ_t w_t x_t        penalty = weight · mean(N + R)

B batch  L length  M width  T steps
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.cache import CAPACITY, Past, Projected
from regard.attention.heads import MultiHead
from regard.attention.patterns import Delay, Padding, Pattern
from regard.attention.positions import Timed
from regard.attention.recorder import deliver, recorded, turn, watching
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.blocks import Block, Layers
from regard.layers.penalty import penalise, penalised

THRESHOLD = 0.99  # a position halts when its probabilities sum to this
PONDER = 0.01  # weight of the penalty
UNDECIDED = 1.0  # first bias of the probability to halt, as in tensor2tensor: 0.73

_first: ContextVar[Tensor | None] = ContextVar("first", default=None)


@contextmanager
def counting_from(first: Tensor | None) -> Iterator[None]:
    """Count the positions of each row from `first` (B, 1), in an encoder and the decoder that looks at it alike.

    A model that begins to count anywhere while it learns has seen the positions of longer texts (Dehghani 2019, 3.3).
    """
    token = _first.set(first)
    try:
        yield
    finally:
        _first.reset(token)


class Universal(Layers):
    """`block` applied `steps` times; with `halting`, to each position until it halts. x (B, L, M) → (B, L, M)

    The last norm of the wiring is `final`.
    """

    def __init__(
        self,
        block: Block,
        *,
        steps: int,
        width: int,
        final: nn.Module,
        halting: bool = True,
        threshold: float = THRESHOLD,
        ponder: float = PONDER,
    ) -> None:
        super().__init__()
        if steps < 1:
            raise RegardError(f"steps={steps}: the block is applied at least once")
        self.block, self.final, self.steps = block, final, steps
        self.threshold, self.ponder = threshold, ponder
        self.position = Timed()
        self.halts = Linear(width, 1) if halting else None
        if self.halts is not None:
            nn.init.zeros_(self.halts.weight)
            nn.init.constant_(self.halts.bias, UNDECIDED)

    def forward(
        self,
        x: Tensor,
        *,
        pattern: Pattern | None = None,
        memory: Tensor | Sequence[Projected] | None = None,
        memory_pattern: Pattern | None = None,
        caches: Sequence[Past] | None = None,
    ) -> Tensor:
        seen = memory if memory is None or isinstance(memory, Tensor) else memory[0]
        at = _places(x, pattern, 0 if caches is None else caches[0].length)
        pondering = None if self.halts is None else _Pondering(x, self.threshold)
        for step in range(self.steps):
            with turn(step):
                after = self.block(
                    self.position.on_input(x, at, time=step + 1),
                    pattern=pattern,
                    memory=seen,
                    memory_pattern=memory_pattern,
                    cache=None if caches is None else caches[step],
                )
            if pondering is None or self.halts is None:
                x = after
                continue
            x = torch.where(pondering.running, after, x)
            pondering.take(x, self.halts(x).sigmoid(), last=step == self.steps - 1)
            if caches is None and not recorded() and not bool(pondering.running.any()):
                break  # with caches, later positions will look at the copies too
        if pondering is None:
            return self.final(x)
        if watching("halting"):
            deliver(pondering.shown(self.steps), part="halting", columns="step")
        if penalised():
            penalise(self.ponder * pondering.cost(pattern))
        return self.final(pondering.out)

    def remember(self, memory: Tensor) -> list[Projected]:
        return [cast(MultiHead, self.block.cross).remember(memory)]

    def past(self, capacity: int = CAPACITY) -> list[Past]:
        return [cast(MultiHead, self.block.attention).past(capacity) for _ in range(self.steps)]


class _Pondering:
    """Which positions are still running, and the sum of their states so far, weighted."""

    def __init__(self, x: Tensor, threshold: float) -> None:
        self.threshold = threshold
        self.out = torch.zeros_like(x)
        self.total = x.new_zeros(*x.shape[:2], 1)  # (B, L, 1), Σ_t w_t
        self.running = torch.ones_like(self.total, dtype=torch.bool)
        self.weights: list[Tensor] = []  # one (B, L, 1) for each step
        self.price = torch.zeros_like(self.total)  # N + R

    def take(self, x: Tensor, probability: Tensor, *, last: bool) -> None:
        """Add the states x (B, L, M) after a step, where positions halt with this probability (B, L, 1)."""
        halt = self.running & ((self.total + probability >= self.threshold) | last)
        rest = 1 - self.total
        weight = torch.where(halt, rest, probability) * self.running
        self.out = self.out + weight * x
        self.price = self.price + self.running + rest * halt
        self.total, self.running = self.total + weight, self.running & ~halt
        self.weights.append(weight)

    def shown(self, steps: int) -> Tensor:
        """w_t of each position and step: (B, 1, L, T)"""
        weights = torch.cat(self.weights, -1)
        return F.pad(weights, (0, steps - weights.shape[-1])).unsqueeze(1)

    def cost(self, pattern: Pattern | None) -> Tensor:
        """The mean of N + R over the positions that are not padding."""
        price = self.price.squeeze(-1)
        if not isinstance(pattern, Padding):
            return price.mean()
        real = torch.arange(price.shape[1], device=price.device) < pattern.lengths.unsqueeze(1)
        return (price * real).sum() / real.sum()


def _places(x: Tensor, pattern: Pattern | None, start: int) -> Tensor:
    """The positions of x (B, L, M) after `start` others: (L,), or (B, L) if rows begin in different columns."""
    at, first = torch.arange(start, start + x.shape[1], device=x.device), _first.get()
    at = (at - pattern.missing.unsqueeze(1)).clamp(min=0) if isinstance(pattern, Delay) else at
    return at if first is None else at + first
