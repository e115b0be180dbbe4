"""Sets become batches of tensors, sets of similar size together, with padding at the end only.

B batch  N elements of the largest set  F numbers of an element  O numbers to be said of a set
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Self

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.planning import Rows
from regard.data.streams import WHOLE, Share, Stream, TensorBatch

POOL = 8  # batches of random sets that are sorted by size together


@dataclass(frozen=True)
class SetBatch(TensorBatch):
    """A batch of sets.

    elements  (B, N, F) numbers or (B, N) ids, then zeros
    lengths   (B,)      elements of each set
    wanted    (B,) numbers of labels, or (B, O) numbers
    targets             how many labels or numbers are to be predicted
    rows                the numbers of the sets
    """

    elements: Tensor
    lengths: Tensor
    wanted: Tensor
    targets: int
    rows: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.lengths)

    def part(self, rows: slice) -> Self:
        return replace(super().part(rows), targets=self.wanted[rows].numel())


@dataclass(frozen=True)
class FlatSets:
    """All sets in one array: elements (T, F) float32 or (T,) int64, sizes (S,) of the sets, and what is wanted of each:
    (S,) int64 or (S, O) float32."""

    elements: NDArray[numpy.float32] | NDArray[numpy.int64]
    sizes: NDArray[numpy.int64]
    wanted: NDArray[numpy.float32] | NDArray[numpy.int64]

    @cached_property
    def _begins(self) -> NDArray[numpy.int64]:
        """Where each set begins (S,)."""
        return numpy.cumsum(self.sizes) - self.sizes

    def batch(self, rows: Rows) -> SetBatch:
        """Some of the sets as tensors."""
        sizes = self.sizes[rows]
        at = numpy.arange(sizes.max(initial=0))
        there = at < sizes[:, None]  # (B, N)
        elements = self.elements[numpy.where(there, self._begins[rows, None] + at, 0)]
        elements[~there] = 0
        wanted = self.wanted[rows]
        return SetBatch(
            elements=torch.from_numpy(elements),
            lengths=torch.from_numpy(sizes),
            wanted=torch.from_numpy(wanted),
            targets=wanted.size,
            rows=tuple(rows.tolist()),
        )

    def by_size(self, *, cells: int) -> Iterator[SetBatch]:
        """Every set once, the largest first, with at most `cells` elements and padding in a batch of several."""
        order, begin = numpy.argsort(-self.sizes, kind="stable"), 0
        while begin < len(order):
            count = max(1, cells // int(self.sizes[order[begin]]))
            yield self.batch(order[begin : begin + count])
            begin += count


class SetStream(Stream[SetBatch]):
    """The batches of sets in memory, `batch_size` sets in each.

    The sets of an epoch are drawn at random, `POOL` batches at a time; these are sorted by size and divided, so that
    little padding is needed. The batches of the epoch then come in random order.
    """

    unit = "targets"

    def __init__(self, sets: FlatSets, *, batch_size: int, cells: int, seed: int, share: Share = WHOLE) -> None:
        self.sets, self.batch_size, self.cells, self.seed, self.share = sets, batch_size, cells, seed, share

    @property
    def checksum(self) -> str:
        digest = sha256()
        for array in (self.sets.elements, self.sets.sizes, self.sets.wanted):
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(numpy.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def describe(self) -> list[str]:
        sizes = self.sets.sizes
        return [f"{len(sizes):,} sets of {sizes.min():,} to {sizes.max():,} elements"]

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[SetBatch]:
        generator = numpy.random.default_rng([self.seed, epoch])
        order = generator.permutation(len(self.sets.sizes))
        planned: list[Rows] = []
        for begin in range(0, len(order), POOL * self.batch_size):
            pool = order[begin : begin + POOL * self.batch_size]
            pool = pool[numpy.argsort(self.sets.sizes[pool], kind="stable")]
            planned += [pool[place : place + self.batch_size] for place in range(0, len(pool), self.batch_size)]
        batches = [planned[number] for number in generator.permutation(len(planned))]
        for place, rows, idle in self.share.groups(batches, position):
            yield replace(self.sets.batch(rows), epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[SetBatch]:
        return self.sets.by_size(cells=self.cells)
