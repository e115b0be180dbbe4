"""The scale of numbers: their mean and standard deviation, as measured on the training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy
from numpy.typing import NDArray
from pydantic import JsonValue

from regard.errors import RegardError


@dataclass(frozen=True)
class Scale:
    """Numbers in units of their standard deviation, from their mean: (…, F) each way."""

    mean: NDArray[numpy.float64]
    spread: NDArray[numpy.float64]

    @classmethod
    def measured(cls, rows: Sequence[NDArray[numpy.float64]]) -> Self:
        """Of rows (n, F) of several sets; what is always the same is not scaled."""
        count = sum(map(len, rows))
        mean = sum(row.sum(0) for row in rows) / count
        spread = numpy.sqrt(sum(((row - mean) ** 2).sum(0) for row in rows) / count)
        varies = numpy.any([(row != rows[0][0]).any(0) for row in rows], 0)  # the mean of a constant may be rounded
        return cls(mean, numpy.where(varies & (spread > 0), spread, 1.0))

    @classmethod
    def stored(cls, stored: JsonValue) -> Self:
        try:
            mean, spread = numpy.array(stored, dtype=numpy.float64)
            return cls(mean, spread)
        except (TypeError, ValueError):
            raise RegardError("numbers.json is damaged: it has no scale; copy the model directory again") from None

    def to_json(self) -> JsonValue:
        return [self.mean.tolist(), self.spread.tolist()]

    def units(self, rows: NDArray[numpy.float64]) -> NDArray[numpy.float32]:
        found: NDArray[numpy.float32] = ((rows - self.mean) / self.spread).astype(numpy.float32)
        return found

    def numbers(self, units: NDArray[numpy.float32]) -> NDArray[numpy.float64]:
        found: NDArray[numpy.float64] = units.astype(numpy.float64) * self.spread + self.mean
        return found
