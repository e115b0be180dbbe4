"""Segment memory: the states that entered each layer at the last positions of a text (Dai 2019, section 3.2).

B batch  K positions remembered  T length of a segment  M width
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.cache import Cache
from regard.attention.heads import MultiHead
from regard.attention.patterns import Padding, Pattern
from regard.layers.blocks import Block
from regard.layers.wiring import NormFirst


@dataclass(frozen=True)
class Memory:
    """The states (B, K, M) that entered each layer, without gradients; row b lacks the first `missing[b]` of the K
    positions (B,), where there is such a row."""

    entered: tuple[Tensor, ...]
    missing: Tensor | None = None

    @property
    def length(self) -> int:
        """K"""
        return self.entered[0].shape[1]

    def then(self, entered: Sequence[Tensor]) -> Memory:
        """The memory, and after it a segment whose states (B, T, M) entered the layers."""
        both = zip(self.entered, entered, strict=True)
        return Memory(tuple(torch.cat([before, x.detach()], 1) for before, x in both), self.missing)

    def last(self, most: int) -> Memory:
        """The last `most` positions, without gradients."""
        dropped = max(self.length - most, 0)
        missing = None if self.missing is None else (self.missing - dropped).clamp(min=0)
        return Memory(tuple(x[:, dropped:].detach() for x in self.entered), missing)

    def detach(self) -> Memory:
        """The memory itself: it has no gradients."""
        return self

    def where(self, kept: Tensor) -> Memory:
        """The memory in rows where `kept` (B, 1) is True, and none in the others."""
        missing = kept.new_zeros(len(kept), dtype=torch.int64) if self.missing is None else self.missing
        return Memory(self.entered, missing.masked_fill(~kept.squeeze(1), self.length))

    def pattern(self) -> Pattern | None:
        """Where a query may look as far as the memory is concerned; None if it may look everywhere."""
        return None if self.missing is None else ~Padding(self.missing)

    def caches(self, blocks: Sequence[Block]) -> list[Cache]:
        """Keys and values of the memory for each block, computed as those of its own segment, with gradients."""
        return [_projected(block, states) for block, states in zip(blocks, self.entered, strict=True)]

    def tensors(self) -> dict[str, Tensor]:
        """The memory as named tensors, for a checkpoint."""
        named = {str(layer): states for layer, states in enumerate(self.entered)}
        return named if self.missing is None else {**named, "missing": self.missing}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Memory:
        """The opposite of `tensors`."""
        layers = range(len(tensors.keys() - {"missing"}))
        return cls(tuple(tensors[str(layer)] for layer in layers), tensors.get("missing"))


def _projected(block: Block, entered: Tensor) -> Cache:
    around, attention = block.around_attention, block.attention
    assert isinstance(attention, MultiHead)
    cache = Cache(max(entered.shape[1], 1))
    cache.append(attention.remember(around.norm(entered) if isinstance(around, NormFirst) else entered))
    return cache
