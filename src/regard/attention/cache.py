"""What earlier positions left behind, so that a decoding step computes one position and not all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import torch
from torch import Tensor

from regard.errors import RegardError

CAPACITY = 32  # positions that a cache has room for at first


class Past(ABC):
    """What attention keeps of the first `length` positions: their keys and values, or sums over them."""

    length: int

    @abstractmethod
    def reorder(self, rows: Tensor) -> Self:
        """A copy with the rows of the batch named by `rows` (B′,): repeated, permuted or dropped."""


class Projected(NamedTuple):
    """Keys (B, H, K, D) and values (B, H, K, D): a memory that is projected once and used at every step."""

    keys: Tensor
    values: Tensor

    def reorder(self, rows: Tensor) -> Projected:
        """The rows of the batch named by `rows` (B′,): repeated, permuted or dropped."""
        return Projected(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class Cache(Past):
    """Keys and values of the first `length` positions, in buffers (capacity, B, H, D) that double when full.

    Positions come first, so that the filled part is contiguous: appending and reordering copy nothing else. Keys and
    values with gradients are copied into new buffers each time: torch keeps the old ones for the backward pass.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise RegardError(f"Cache(capacity={capacity}): expected a whole number of at least 1")
        self.capacity = capacity
        self.length = 0
        self._buffers: list[Tensor] = []

    def append(self, new: Projected) -> Projected:
        """Append the next positions and return all so far, without copying unless gradients are needed."""
        if self._buffers and (held := self._buffers[0].shape[1:3]) != new.keys.shape[:2]:
            raise RegardError(
                f"Cache: holds batch {held[0]} and heads {held[1]}, but batch {new.keys.shape[0]} and heads "
                f"{new.keys.shape[1]} are appended; rows of the batch change with reorder(rows)"
            )
        start, self.length = self.length, self.length + new.keys.shape[2]
        if any(x.requires_grad for x in (*new, *self._buffers)):
            self._append_with_gradients(new, start)
            return self.held
        if not self._buffers or self.length > self.capacity:
            self.capacity = max(self.length, 2 * self.capacity if self._buffers else self.capacity)
            old = self._buffers
            self._buffers = [x.new_empty(self.capacity, x.shape[0], x.shape[1], x.shape[3]) for x in new]
            for buffer, before in zip(self._buffers, old, strict=False):
                buffer[:start] = before[:start]
        for buffer, x in zip(self._buffers, new, strict=True):
            buffer[start : self.length] = x.permute(2, 0, 1, 3)
        return self.held

    def _append_with_gradients(self, new: Projected, start: int) -> None:
        added = [x.permute(2, 0, 1, 3) for x in new]
        before = [buffer[:start] for buffer in self._buffers] or [x[:0] for x in added]
        self._buffers = [torch.cat(pair) for pair in zip(before, added, strict=True)]
        self.capacity = max(self.length, 1)

    def keep_last(self, most: int) -> None:
        """Forget all positions but the last `most`, without copying; the first of these then has number 0."""
        dropped = self.length - most
        if dropped > 0:
            self._buffers = [buffer[dropped:] for buffer in self._buffers]
            self.length, self.capacity = most, self.capacity - dropped

    @property
    def held(self) -> Projected:
        """All positions so far, without copying."""
        keys, values = (buffer[: self.length].permute(1, 2, 0, 3) for buffer in self._buffers)
        return Projected(keys, values)

    def reorder(self, rows: Tensor) -> Self:
        moved = type(self)(self.capacity)
        moved.length = self.length
        for buffer in self._buffers:
            copy = buffer.new_empty(self.capacity, len(rows), *buffer.shape[2:])
            if buffer.requires_grad:  # index_select with `out` has no gradient
                copy[: self.length] = buffer[: self.length].index_select(1, rows)
            else:
                torch.index_select(buffer[: self.length], 1, rows, out=copy[: self.length])
            moved._buffers.append(copy)
        return moved
