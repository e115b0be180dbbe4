"""One series on a grid of steps, and what is done where steps are missing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy
from numpy.typing import NDArray

from regard.data.series.dates import Steps
from regard.data.series.frequency import Frequency
from regard.errors import RegardError

Fill = Literal["linear", "previous", "zero"]
Numbers = NDArray[numpy.float64]


@dataclass(frozen=True)
class Series:
    """Numbers at equal distances in time: `values` (N,), the first at position `start` of the frequency's grid.

    What stands before the step `judged` is known, what stands from it on is to be forecast; all is known if it is None.
    """

    name: str
    start: int
    values: Numbers = field(repr=False)
    frequency: Frequency
    place: str = ""  # the file, for errors
    judged: int | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def begin(self) -> int:
        """The first step that is to be forecast."""
        return len(self) if self.judged is None else self.judged

    def positions(self, first: int, last: int) -> Steps:
        """The positions of the steps from `first` to the one before `last`; steps before 0 and after the end have some,
        too."""
        return self.start + self.frequency.step * numpy.arange(first, last)

    def texts(self, first: int, last: int) -> list[str]:
        """The times of these steps."""
        return self.frequency.texts(self.positions(first, last))

    def until(self, position: int) -> int:
        """How many steps stand at or before a position."""
        return int(numpy.clip((position - self.start) // self.frequency.step + 1, 0, len(self)))

    def cut(self, length: int) -> Self:
        """The first `length` steps."""
        return replace(self, values=self.values[:length], judged=None)

    def filled(self, fill: Fill | None) -> Self:
        """The series without NaN: those at both ends are left out, those between are filled as `fill` says."""
        known = numpy.flatnonzero(~numpy.isnan(self.values))
        if not len(known):
            raise RegardError(f"{self.place}: series {self.name!r} has no numbers; leave it out")
        values, first = self.values[known[0] : known[-1] + 1], int(known[0])
        missing = numpy.isnan(values)
        if missing.any() and fill is None:
            at = first + int(missing.argmax())
            raise RegardError(
                f"{self.place}: series {self.name!r} has no value at {self.texts(at, at + 1)[0]} ({missing.sum():,} of "
                f'{len(values):,} steps are missing, {self.frequency} apart); add them, or set data.fill to "linear", '
                '"previous" or "zero"'
            )
        here = numpy.flatnonzero(~missing)
        if fill == "zero":
            values = numpy.where(missing, 0.0, values)
        elif fill == "previous":
            values = values[here[numpy.searchsorted(here, numpy.arange(len(values)), side="right") - 1]]
        else:
            values = numpy.interp(numpy.arange(len(values)), here, values[here])
        return replace(self, start=self.start + first * self.frequency.step, values=values)
