"""The grid that the times of a table stand on, its season, and the calendar.

A *position* counts units since 1970: months, days, business days or seconds; whole numbers count themselves. The steps
of a series are `step` units apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy
from numpy.typing import NDArray

from regard.data.series.dates import Steps, Times, moment
from regard.errors import RegardError

Unit = Literal["month", "day", "business", "second", "step"]

DAY, WEEK, YEAR = 86_400, 7 * 86_400, 365.2425 * 86_400  # in seconds
MONDAY = 4 * DAY  # 1970-01-05
NAMES = {
    ("month", 1): "months",
    ("month", 3): "quarters",
    ("month", 12): "years",
    ("day", 1): "days",
    ("day", 7): "weeks",
    ("business", 1): "business days",
    ("second", 3600): "hours",
    ("step", 1): "steps",
}
SEASONS = {("month", 1): 12, ("month", 3): 4, ("day", 1): 7, ("day", 7): 52, ("business", 1): 5}


@dataclass(frozen=True)
class Frequency:
    """`step` units between two times. `offset` says where in a month the times stand: seconds after its beginning, or
    −1 for its last day."""

    unit: Unit
    step: int
    offset: int = 0

    def __str__(self) -> str:
        return NAMES.get((self.unit, self.step), f"every {self.step} {self.unit}s")

    @property
    def season(self) -> int:
        """Steps in a season: a year of months, quarters or weeks, a week of days, a day of hours; 1 elsewhere."""
        if self.unit == "second" and self.step >= 60 and DAY % self.step == 0:
            return DAY // self.step
        return SEASONS.get((self.unit, self.step), 1)

    def positions(self, times: Times | Steps) -> Steps:
        """Times on the grid as numbers of units."""
        if self.unit == "step":
            return times.astype(numpy.int64)
        if self.unit == "business":
            found: Steps = numpy.busday_count("1970-01-01", times.astype("datetime64[D]")).astype(numpy.int64)
            return found
        unit = {"month": "M", "day": "D", "second": "s"}[self.unit]
        return times.astype(f"datetime64[{unit}]").astype(numpy.int64)

    def position(self, time: str | int, place: str) -> int:
        """The position of a time in words; `place` is named in errors."""
        if self.unit != "step":
            return int(self.positions(numpy.array([moment(str(time), place)]))[0])
        try:
            return int(time)
        except ValueError:
            raise RegardError(f"{place} = {time!r}: the times of this table are whole numbers; give one") from None

    def times(self, positions: Steps) -> Times:
        """The times of positions, in seconds; a grid of whole numbers has none."""
        if self.unit == "business":
            return numpy.busday_offset("1970-01-01", positions, roll="forward").astype("datetime64[s]")
        if self.unit == "month" and self.offset < 0:
            following: Times = (positions + 1).astype("datetime64[M]").astype("datetime64[s]")
            return (following.astype(numpy.int64) - DAY).astype("datetime64[s]")
        unit = {"month": "M", "day": "D", "second": "s"}[self.unit]
        begun = positions.astype(f"datetime64[{unit}]").astype("datetime64[s]").astype(numpy.int64)
        return (begun + self.offset).astype("datetime64[s]")

    def texts(self, positions: Steps) -> list[str]:
        """The names of positions: whole numbers, dates, or dates with the time of day."""
        if self.unit == "step":
            return [str(position) for position in positions.tolist()]
        times = self.times(positions)
        if not ((times.astype(numpy.int64) % DAY) == 0).all():
            return [text.replace("T", " ") for text in times.astype(str).tolist()]
        return list(times.astype("datetime64[D]").astype(str).tolist())

    @property
    def cycles(self) -> tuple[Literal["year", "week", "day"], ...]:
        """The cycles of the calendar that steps go through, other than in one step."""
        if self.unit == "month":
            return ("year",) if 12 % self.step == 0 and self.step < 12 else ()
        if self.unit == "step":
            return ()
        if self.unit == "second":
            return ("day", "week", "year")
        return ("year",) if self.step % 7 == 0 else ("week", "year")

    def calendar(self, positions: Steps) -> NDArray[numpy.float32]:
        """A sine and a cosine for each cycle: positions (…) → (…, 2 · cycles)"""
        if not self.cycles:
            return numpy.zeros((*positions.shape, 0), numpy.float32)
        if self.unit == "month":
            turns = [positions % 12 / 12]
        else:
            seconds = self.times(positions).astype(numpy.int64)
            lengths = {"year": (0, YEAR), "week": (MONDAY, WEEK), "day": (0, DAY)}
            turns = [(seconds - lengths[name][0]) / lengths[name][1] for name in self.cycles]
        angles = 2 * numpy.pi * numpy.stack(turns, -1)
        return numpy.concatenate([numpy.sin(angles), numpy.cos(angles)], -1).astype(numpy.float32)


def infer(series: Sequence[Times | Steps]) -> Frequency:
    """The grid of the sorted times of series, each of which has two or more: the most frequent distance is the step."""
    if numpy.issubdtype(series[0].dtype, numpy.integer):
        return Frequency("step", _usual([times.astype(numpy.int64) for times in series]))
    joined = numpy.concatenate([times.astype("datetime64[s]") for times in series])
    inside = (joined - joined.astype("datetime64[M]")).astype(numpy.int64)  # seconds since the month began
    next_day = joined + numpy.timedelta64(DAY, "s")
    last = (next_day == next_day.astype("datetime64[M]")).all()
    if last or (inside == inside[0]).all():
        months = [times.astype("datetime64[M]").astype(numpy.int64) for times in series]
        return Frequency("month", _usual(months), -1 if last else int(inside[0]))
    seconds = [times.astype("datetime64[s]").astype(numpy.int64) for times in series]
    step = _usual(seconds)
    if step % DAY or (joined.astype(numpy.int64) % DAY).any():
        return Frequency("second", step)
    if step == DAY and _skips_weekends(series):
        return Frequency("business", 1)
    return Frequency("day", step // DAY)


def _usual(series: Sequence[Steps]) -> int:
    """The most frequent distance between neighbours; of equally frequent ones the smallest."""
    distances, counts = numpy.unique(numpy.concatenate([numpy.diff(each) for each in series]), return_counts=True)
    return int(distances[counts.argmax()])


def _skips_weekends(series: Sequence[Times | Steps]) -> bool:
    """Whether no day is a Saturday or a Sunday although some Monday follows a Friday."""
    days = [times.astype("datetime64[D]") for times in series]
    weekend = any((~numpy.is_busday(each)).any() for each in days)
    return not weekend and any((numpy.diff(each).astype(numpy.int64) == 3).any() for each in days)
