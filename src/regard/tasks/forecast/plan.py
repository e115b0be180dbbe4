"""What a recipe says of series, and what the data decides: the grid, the season, how far is looked ahead and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, cast

import numpy
from pydantic import Field, JsonValue, PositiveInt

from regard.data.series.frequency import Frequency, Unit
from regard.data.series.series import Fill, Series
from regard.data.series.table import Columns
from regard.data.splits import DataTable
from regard.errors import RegardError

SIZES = ("step", "offset", "season", "horizon", "context")
FEWEST, MOST = 6, 48  # steps ahead, unless data.horizon is given


class SeriesData(DataTable):
    train: str | list[str] | None = Field(
        None, description="a table, several, or a bundled series: series:airline?until=1958-12"
    )
    valid: str | list[str] | None = Field(None, description="as train; without it, the last steps of train")
    test: str | list[str] | None = Field(
        None, description="as train; the last steps of each series are judged, as many as horizon"
    )
    columns: Columns = Field(default_factory=Columns, description="which columns; those not given are found")
    fill: Fill | None = Field(None, description="what stands at missing steps; without it they are an error")
    horizon: PositiveInt | None = Field(None, description="steps ahead; two seasons, but 6 to 48, if not given")
    context: PositiveInt | None = Field(None, description="steps that a forecast reads; two seasons, but at least 16")
    season_length: PositiveInt | None = Field(None, description="steps in a season; by the frequency if not given")
    log: bool | None = Field(None, description="learn logarithms; if not given, where changes grow with the numbers")
    hold_out: PositiveInt | None = Field(None, description="last steps held out for validation; horizon if not given")


@dataclass(frozen=True)
class Plan:
    """What the data decides: the grid of steps, the season, how far is looked ahead and back, and whether logarithms
    are learned."""

    frequency: Frequency
    season: int
    horizon: int
    context: int
    log: bool = False

    @classmethod
    def of(cls, data: SeriesData, frequency: Frequency) -> Self:
        season = data.season_length or frequency.season
        horizon = data.horizon or min(max(2 * season, FEWEST), MOST)
        context = data.context or max(2 * season, 16)
        if context < season + 2:
            raise RegardError(
                f"data.context = {context} is too short for a season of {season}; give {season + 2} or more"
            )
        return cls(frequency, season, horizon, context, bool(data.log))

    def numbers(self) -> dict[str, JsonValue]:
        grid: dict[str, JsonValue] = {
            "unit": self.frequency.unit,
            "step": self.frequency.step,
            "offset": self.frequency.offset,
        }
        return {**grid, "season": self.season, "horizon": self.horizon, "context": self.context, "log": self.log}

    @classmethod
    def kept(cls, numbers: Mapping[str, JsonValue]) -> Self:
        try:
            step, offset, season, horizon, context = (int(cast(int, numbers[name])) for name in SIZES)
            frequency = Frequency(cast(Unit, str(numbers["unit"])), step, offset)
            return cls(frequency, season, horizon, context, bool(numbers["log"]))
        except (KeyError, TypeError, ValueError):
            raise RegardError("numbers.json lacks what a forecaster needs; copy the model directory again") from None


def grows(series: Sequence[Series], season: int) -> bool:
    """Whether all numbers are positive, and changes over a season grow with the numbers in most series.

    That is so where the later half of a series has numbers r times as large as the earlier half, r > 1.2 or r < 1/1.2,
    and changes nearer to r times as large than to as large.
    """
    if any((each.values <= 0).any() for each in series):
        return False
    found = []
    for each in series:
        half = len(each) // 2
        if half <= season + 1:
            continue
        early, late = each.values[:half], each.values[half:]
        level = math.log(late.mean() / early.mean())
        sizes = [float(numpy.abs(part[season:] - part[:-season]).mean()) for part in (early, late)]
        change = math.log(sizes[1] / sizes[0]) if min(sizes) > 0 else 0.0
        found.append(abs(level) > math.log(1.2) and abs(change - level) < abs(change))
    return sum(found) > len(found) / 2 if found else False
