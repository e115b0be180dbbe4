"""Keys and values of what was seen before, so that a step pays for one position and not for all."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Projected(NamedTuple):
    """Keys (B, H, K, D) and values (B, H, K, D): a memory that is looked at again and again, projected once."""

    keys: Tensor
    values: Tensor

    def reorder(self, rows: Tensor) -> Projected:
        """The rows of the batch named by `rows` (B′,): repeated, permuted or dropped."""
        return Projected(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class Cache:
    """Keys and values of the first `length` positions, in buffers (B, H, capacity, D) that double when full."""

    def __init__(self, capacity: int = 32) -> None:
        self.capacity = capacity
        self.length = 0
        self._buffers: list[Tensor] = []

    def append(self, new: Projected) -> Projected:
        """Take in the next positions; all there are so far come back, without copying."""
        start, self.length = self.length, self.length + new.keys.shape[2]
        if not self._buffers or self.length > self.capacity:
            self.capacity = max(self.length, self.capacity if not self._buffers else 2 * self.capacity)
            old = self._buffers
            self._buffers = [x.new_empty(*x.shape[:2], self.capacity, x.shape[3]) for x in new]
            for buffer, before in zip(self._buffers, old, strict=False):
                buffer[:, :, :start] = before[:, :, :start]
        for buffer, x in zip(self._buffers, new, strict=True):
            buffer[:, :, start : self.length] = x
        keys, values = (buffer[:, :, : self.length] for buffer in self._buffers)
        return Projected(keys, values)

    def reorder(self, rows: Tensor) -> Cache:
        """A new cache with the rows of the batch named by `rows` (B′,): repeated, permuted or dropped."""
        moved = Cache(self.capacity)
        moved.length = self.length
        for buffer in self._buffers:
            copy = buffer.new_empty(len(rows), *buffer.shape[1:])
            copy[:, :, : self.length] = torch.index_select(buffer[:, :, : self.length], 0, rows)
            moved._buffers.append(copy)
        return moved
