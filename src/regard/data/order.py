"""The order of very many rows, computed where it is needed: nothing of it is kept in memory.

    (l, r) ← (r, l ⊕ f_k(r))        l, r halves of the bits of a number        f_k a hash with a key        Luby 1988

Four rounds of this permute the numbers below a power of four. A number that lands outside of the rows is permuted
again until it lands inside: this permutes the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

ROUNDS = 4

Words = NDArray[numpy.uint64]


class Shuffled:
    """The numbers below `size` in an order that depends on the seed alone."""

    def __init__(self, size: int, seed: Sequence[int]) -> None:
        self.size = size
        self._half = numpy.uint64(max(-(-(size - 1).bit_length() // 2), 1))  # bits of half a number
        self._mask = (numpy.uint64(1) << self._half) - numpy.uint64(1)
        self._keys: Words = numpy.random.default_rng(seed).integers(2**63, size=ROUNDS, dtype=numpy.uint64)

    def __len__(self) -> int:
        return self.size

    def take(self, begin: int, end: int) -> NDArray[numpy.int64]:
        """The numbers at the places from `begin` up to `end`."""
        found = self._permuted(numpy.arange(begin, min(end, self.size), dtype=numpy.uint64))
        while len(outside := numpy.flatnonzero(found >= self.size)):
            found[outside] = self._permuted(found[outside])
        return found.astype(numpy.int64)

    def _permuted(self, numbers: Words) -> Words:
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys:
            left, right = right, left ^ (_hash(right ^ key) & self._mask)
        return (left << self._half) | right


def _hash(numbers: Words) -> Words:
    """Mixes the bits of each number, as the finaliser of MurmurHash3 does."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        numbers = (numbers ^ (numbers >> numpy.uint64(33))) * numpy.uint64(factor)
    return numbers ^ (numbers >> numpy.uint64(33))
