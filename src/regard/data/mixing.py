"""Several corpora in one: how often the examples of each are learned.

    p_i ∝ (n_i w_i)^(1/T)        n_i examples  w_i weight  T temperature

An epoch has as many examples as all corpora together, and p_i of them are from corpus i. With T = 1 and equal weights
that is every example once; a high temperature takes as many from small corpora as from large ones.

The examples of a corpus come in passes, each in an order of its own, and an epoch goes on where the one before it
ended: no example comes again before all others of its corpus have come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, model_validator

from regard.checking import Settings
from regard.data.splits import DataTable

Order = NDArray[numpy.integer]


class Weighted(Settings):
    """A corpus of a mixture."""

    weight: PositiveFloat = 1.0


class WeightedFiles(Weighted):
    """A corpus of a mixture that files alone name."""

    path: str | list[str]


class MixedTable(DataTable):
    """The keys of a [data] whose training examples may be a mixture; a task says by `mix` what a corpus is."""

    mix: Sequence[Weighted] | None = None
    temperature: PositiveFloat = Field(
        1.0, description="of mix: 1 takes examples by the sizes of corpora × weight, more takes more of small ones"
    )

    @model_validator(mode="after")
    def _one_way_to_train(self) -> Self:
        if self.train and self.mix:
            raise ValueError("train and mix are both given; put the files of train into mix as another corpus")
        if self.temperature != 1 and not self.mix:
            raise ValueError(f"temperature={self.temperature:g} needs mix: there is nothing to mix")
        return self

    @property
    def mixing(self) -> Mixing | None:
        """The mixing that is asked for."""
        return Mixing(tuple(each.weight for each in self.mix), self.temperature) if self.mix else None


@dataclass(frozen=True)
class Mixing:
    """How corpora are mixed."""

    weights: tuple[float, ...]
    temperature: float = 1.0

    def counts(self, sizes: Sequence[int]) -> list[int]:
        """How many examples of each corpus an epoch has; together as many as there are."""
        logs = numpy.log(numpy.maximum(sizes, 1) * numpy.array(self.weights)) / self.temperature
        chances = numpy.where(numpy.array(sizes) > 0, numpy.exp(logs - logs.max()), 0.0)
        exact = chances / chances.sum() * sum(sizes)
        counts = numpy.floor(exact).astype(numpy.int64)
        rest = numpy.argsort(counts - exact, kind="stable")[: sum(sizes) - int(counts.sum())]
        counts[rest] += 1  # the largest remainders are rounded up
        return [int(count) for count in counts]

    def rows(self, sizes: Sequence[int], *, seed: int, epoch: int) -> Order:
        """The numbers of the examples of an epoch, corpus by corpus; those of corpus i begin at Σ_{j<i} n_j."""
        found = numbers(sum(sizes))
        start = filled = 0
        for number, (size, count) in enumerate(zip(sizes, self.counts(sizes), strict=True)):
            for part in _passes(size, begin=epoch * count, count=count, seed=[seed, number]):
                numpy.add(part, start, out=found[filled : filled + len(part)], casting="unsafe")
                filled += len(part)
            start += size
        return found


def _passes(size: int, *, begin: int, count: int, seed: Sequence[int]) -> Iterator[Order]:
    """`count` numbers below `size`, from place `begin` of the passes on."""
    while count:
        number, place = divmod(begin, size)
        order = numbers(size)
        numpy.random.default_rng([*seed, number]).shuffle(order)
        part = order[place : place + count]
        yield part
        begin, count = begin + len(part), count - len(part)


def numbers(size: int) -> Order:
    """0, 1, … in as few bytes as there is room for."""
    return numpy.arange(size, dtype=numpy.int32 if size < 2**31 else numpy.int64)
