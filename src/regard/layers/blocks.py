"""A Transformer layer, and a stack of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.attention.cache import CAPACITY, Past, Projected
from regard.attention.heads import MultiHead
from regard.attention.patterns import Pattern
from regard.attention.performer import Performer
from regard.attention.recorder import recorded
from regard.errors import RegardError
from regard.layers.experts import Experts
from regard.layers.ssru import SSRU
from regard.layers.wiring import EPSILON, NormName, Wiring

RECOMPUTED = 1 << 15  # positions of an input for which only the inputs of blocks are kept for the backward pass


class Block(nn.Module):
    """Attention, then (in a decoder) attention over a memory, then feed-forward, each with the wiring around it.

        x ← wired(x, attention)   x ← wired(x, y ↦ cross(y, memory))   x ← wired(x, feed_forward)    Vaswani 2017, 3.1

    x (B, Q, M), memory (B, K, M) → (B, Q, M).   `attention` is any module that is called like MultiHead, such as an
    SSRU. The wiring initialises the weights of the parts.
    """

    def __init__(
        self,
        *,
        attention: nn.Module,
        feed_forward: nn.Module,
        wiring: Wiring,
        width: int,
        dropout: float = 0.0,
        norm: NormName = "layer",
        epsilon: float = EPSILON,
        cross: MultiHead | None = None,
    ) -> None:
        super().__init__()

        def around() -> nn.Module:
            return wiring.around(width, dropout=dropout, norm=norm, epsilon=epsilon)

        self.attention = attention
        self.around_attention = around()
        self.cross = cross
        self.around_cross = None if cross is None else around()
        self.feed_forward = feed_forward
        self.around_feed_forward = around()
        wiring.initialise(self)

    def forward(
        self,
        x: Tensor,
        *,
        pattern: Pattern | None = None,
        memory: Tensor | Projected | None = None,
        memory_pattern: Pattern | None = None,
        cache: Past | None = None,
    ) -> Tensor:
        """`pattern`: where x may look in x; `memory_pattern`: where in memory; `cache`: the positions before x."""
        if (memory is None) != (self.cross is None):
            missing = "a memory but no cross" if self.cross is None else "cross but no memory"
            raise RegardError(f"this block was given {missing}; a block looks at a memory when it has both")
        x = self.around_attention(x, lambda y: self.attention(y, pattern=pattern, cache=cache))
        if self.cross is not None and self.around_cross is not None:
            cross = self.cross
            x = self.around_cross(x, lambda y: cross(y, memory, pattern=memory_pattern))
        return self.around_feed_forward(x, self.feed_forward)


class Layers(nn.Module, ABC):
    """What a model is made of between its embedding and its output: x (B, Q, M) → (B, Q, M)."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        *,
        pattern: Pattern | None = None,
        memory: Tensor | Sequence[Projected] | None = None,
        memory_pattern: Pattern | None = None,
        caches: Sequence[Past] | None = None,
    ) -> Tensor:
        """As for a block, with a cache for each layer; `memory` is one tensor for all, or the result of `remember`."""

    @abstractmethod
    def remember(self, memory: Tensor) -> list[Projected]:
        """Keys and values of a memory (B, K, M) for each block, for steps that look at it again and again."""

    @abstractmethod
    def past(self, capacity: int = CAPACITY) -> list[Past]:
        """An empty cache for each layer, with room for `capacity` positions to begin with."""


class Stack(Layers):
    """Blocks one after the other, then the final norm of the wiring.

    While a model learns from very long inputs, of `RECOMPUTED` positions or more, only the input of each block is kept
    for the backward pass, which computes the rest again: a third more time, and memory for one block instead of all.
    `make` makes one block, with weights of its own each time it is called.   x (B, Q, M) → (B, Q, M).
    """

    def __init__(
        self,
        layers: int,
        make: Callable[[], Block],
        *,
        wiring: Wiring,
        width: int,
        norm: NormName = "layer",
        epsilon: float = EPSILON,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise RegardError(f"layers={layers}: a stack needs at least 1")
        self.blocks = nn.ModuleList(make() for _ in range(layers))
        self.final = wiring.final(width, norm=norm, epsilon=epsilon)
        # Experts add to the loss, and a Performer counts: neither may be computed twice.
        self.repeatable = not any(isinstance(part, Experts | Performer) for part in self.blocks.modules())

    def forward(
        self,
        x: Tensor,
        *,
        pattern: Pattern | None = None,
        memory: Tensor | Sequence[Projected] | None = None,
        memory_pattern: Pattern | None = None,
        caches: Sequence[Past] | None = None,
    ) -> Tensor:
        nothing = [None] * len(self.blocks)
        memories = [memory for _ in nothing] if memory is None or isinstance(memory, Tensor) else memory
        long = self.repeatable and x.shape[1] >= RECOMPUTED
        again = long and caches is None and torch.is_grad_enabled() and not recorded()
        for block, seen, cache in zip(self.blocks, memories, nothing if caches is None else caches, strict=True):
            run = partial(block, pattern=pattern, memory=seen, memory_pattern=memory_pattern, cache=cache)
            x = checkpoint(run, x, use_reentrant=False) if again else run(x)
        return self.final(x)

    def remember(self, memory: Tensor) -> list[Projected]:
        return [cast(MultiHead, block.cross).remember(memory) for block in self.blocks]

    def past(self, capacity: int = CAPACITY) -> list[Past]:
        return [cast(MultiHead | SSRU, block.attention).past(capacity) for block in self.blocks]
