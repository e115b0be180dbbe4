"""A series in a terminal: the past and a forecast as columns of blocks, and below them the weights over the past."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from rich.text import Text

from regard.look.show import LONGEST, printable
from regard.look.timeline import Timeline, shown_row

if TYPE_CHECKING:
    from regard.look.record import Map, Record

HIGH = 10  # rows of the plot
EIGHTHS = " ▁▂▃▄▅▆▇█"
AHEAD, WITHIN, WEIGHT = "bright_blue", "blue", "yellow"
MARGIN = 10  # columns of the numbers at the left

Numbers = NDArray[numpy.float64]


def drawn(record: Record, chosen: Map, *, width: int, colour: bool) -> Text:
    """The plot, and under the past the weights of one step. Steps that share a column are averaged, weights added."""
    timeline = Timeline.of(record.sides)
    count = len(timeline.steps)
    columns = max(min(count, width - MARGIN - 1), 1)
    column = (numpy.arange(count) * columns / count).astype(int)
    step, weights = shown_row(record, chosen)
    plot = _Plot.of(timeline, column, columns)
    text = Text("\n").join(plot.lines(colour=colour)).append("\n")
    sums = numpy.zeros(columns)
    numpy.add.at(sums, column[list(timeline.places[chosen.key])], weights.clamp(min=0).double().numpy())
    most = float(sums.max()) or 1.0
    bars = "".join(_eighth(share) for share in sums / most)
    text.append(f"{most:>{MARGIN - 2}.3g}  ").append(bars, style=WEIGHT if colour else "").append("\n")
    ends = printable(timeline.steps[0], most=LONGEST), printable(timeline.steps[-1], most=LONGEST)
    text.append(" " * MARGIN + ends[0] + " " * max(columns - len(ends[0]) - len(ends[1]), 1) + ends[1], style="dim")
    return text.append(f"\n\nbelow the series: the weights of {printable(step, most=LONGEST)} over the past")


class _Plot:
    """Heights between 0 and 1 for each column, and between which an interval reaches; NaN where there is none."""

    def __init__(self, low: float, high: float, columns: int) -> None:
        self.low, self.high = low, high
        self.past, self.ahead, self.bottom, self.top = (numpy.full(columns, numpy.nan) for _ in range(4))

    @classmethod
    def of(cls, timeline: Timeline, column: NDArray[numpy.int64], columns: int) -> _Plot:
        """The widest interval is drawn."""
        widest = {name: max(side.bands or (), default=None) for name, side in timeline.series.items()}
        numbers = [side.values or () for side in timeline.series.values()]
        numbers += [values for band in widest.values() if band is not None for values in band[1:]]
        known = [value for values in numbers for value in values if math.isfinite(value)]
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        plot = cls(low, high if high > low else low + 1, columns)
        for name, side in timeline.series.items():
            places = column[list(timeline.places[name])]
            plot.put(plot.ahead if timeline.is_ahead(name) else plot.past, places, side.values or ())
            if (band := widest[name]) is not None:
                plot.put(plot.bottom, places, band[1])
                plot.put(plot.top, places, band[2])
        return plot

    def put(self, into: Numbers, places: NDArray[numpy.int64], values: tuple[float, ...]) -> None:
        """The mean of the values at each place, as a height."""
        heights = (numpy.array(values) - self.low) / (self.high - self.low)
        known = numpy.isfinite(heights)
        count = numpy.bincount(places[known], minlength=len(into))
        total = numpy.bincount(places[known], heights[known], minlength=len(into))
        into[count > 0] = (total / numpy.maximum(count, 1))[count > 0]

    def lines(self, *, colour: bool) -> list[Text]:
        """The rows from the top, with the largest and the smallest number at the left."""
        rows = []
        for row in reversed(range(HIGH)):
            number = self.high if row == HIGH - 1 else self.low if row == 0 else None
            line = Text(f"{number:>{MARGIN - 2}.4g}  " if number is not None else " " * MARGIN)
            for at in range(len(self.past)):
                line.append(*self.cell(row, at, colour=colour))
            rows.append(line)
        return rows

    def cell(self, row: int, at: int, *, colour: bool) -> tuple[str, str]:
        """A piece of a column: the series itself, and around the forecast its interval."""
        ahead = not math.isnan(self.ahead[at])
        height = float(self.ahead[at] if ahead else self.past[at])
        filled = 0.0 if math.isnan(height) else height * HIGH - row + 0.125
        if filled > 0:
            within = ahead and not math.isnan(self.bottom[at]) and row + 1 > self.bottom[at] * HIGH
            return _eighth(filled), (AHEAD if within else WITHIN) * (colour and ahead)
        if not math.isnan(self.top[at]) and row < self.top[at] * HIGH:
            return "░", WITHIN * colour
        return " ", ""


def _eighth(share: float) -> str:
    """A block that is as high as a share of 1; the smallest that is not nothing has one eighth."""
    return EIGHTHS[0] if not share > 0.01 else EIGHTHS[min(max(round(share * 8), 1), 8)]
