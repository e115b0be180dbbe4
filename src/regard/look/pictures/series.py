"""A series for print: the past, a forecast with its intervals, and the weights over the past on the same axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from regard.look.palette import ramp
from regard.look.pictures.sheet import ACCENT, INK, LINE, Say, Sheet, named, notes_of, title_of
from regard.look.show import LONGEST, printable
from regard.look.timeline import NAMES, Timeline, shown_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.look.record import Map, Record

SIZE = 9.0, 5.5
MOST_ROWS = 60  # steps of a forecast whose weights are a heat map
ACROSS = 92  # characters that fit side by side in the width of a sheet
FAINT = 0.18  # the opacity of an interval
MOST_MARKED = 6  # steps named beside the heat map


def sheet(record: Record, chosen: Map) -> Sheet:
    """Above the series; below the weights of every step of a forecast as a heat map, or those of one step as bars."""
    timeline = Timeline.of(record.sides)
    steps = [printable(step, most=LONGEST) for step in timeline.steps]
    rows = [printable(item, most=LONGEST) for item in record.sides[chosen.query].items]
    many = chosen.query != chosen.key and len(rows) <= MOST_ROWS
    step, weights = shown_row(record, chosen)

    def paint(figure: Figure, say: Say) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1.4 if many else 1])
        _series(above, timeline)
        places = numpy.array(timeline.places[chosen.key])
        if many:
            _heat(figure, below, chosen.weights.mean(0).numpy(), places, [say(row) for row in rows])
        else:
            below.bar(places, weights.numpy(), width=0.85, color=ACCENT)
            below.set_ylabel("weight")
        beside = max(map(len, rows)) if many else 0
        apart = _apart(len(steps), max(map(len, steps)), across=ACROSS - beside)
        below.set_xticks(range(0, len(steps), apart), [say(step) for step in steps[::apart]])
        below.set_xlim(-0.5, len(steps) - 0.5)
        for axis in (above, below):
            axis.spines[["top", "right"]].set_visible(False)

    heads = "mean of heads" if len(chosen.heads) > 1 else f"head {chosen.heads[0]}"
    about = "each step of the forecast over the past" if many else f"weights of {printable(step)}"
    title = title_of(record, f"{named(chosen)}, {heads}: {about}")
    return Sheet(SIZE, title, notes_of(record, chosen), [*steps, *rows], paint)


def _series(axis: Axes, timeline: Timeline) -> None:
    """Lines and intervals, with a legend."""
    from matplotlib.patches import Patch

    swatches: list[Patch] = []  # narrower intervals lie on wider ones
    for name, side in timeline.series.items():
        places, ahead, joint = timeline.places[name], timeline.is_ahead(name), timeline.joint(name)
        at, start = ((joint[0], *places), (joint[1],)) if joint else (places, ())
        for level, low, high in sorted(side.bands or (), reverse=True):
            axis.fill_between(at, (*start, *low), (*start, *high), color=ACCENT, alpha=FAINT, linewidth=0)
            swatches.append(
                Patch(color=ACCENT, alpha=1 - (1 - FAINT) ** (1 + len(swatches)), label=f"{level:.0%} interval")
            )
        label = printable(NAMES.get(name, name), most=LONGEST)
        colour, width = (ACCENT, 1.8) if ahead else (INK, 1.2)
        axis.plot(at, (*start, *(side.values or ())), color=colour, linewidth=width, label=label)
    axis.grid(axis="y", color=LINE, linewidth=0.7)
    axis.legend(handles=[*axis.get_lines(), *swatches], loc="upper left", frameon=False, fontsize=8)


def _heat(
    figure: Figure, axis: Axes, weights: NDArray[numpy.float32], places: NDArray[numpy.int64], rows: list[str]
) -> None:
    """Weights (steps of the forecast, steps of the past), the past at its places."""
    from matplotlib.colors import ListedColormap

    mesh = axis.pcolormesh(places, numpy.arange(len(rows)), weights, cmap=ListedColormap(ramp().tolist()), vmin=0)
    axis.invert_yaxis()
    apart = max(math.ceil(len(rows) / MOST_MARKED), 1)
    axis.set_yticks(range(0, len(rows), apart), rows[::apart])
    figure.colorbar(mesh, ax=axis, label="weight", pad=0.01)


def _apart(count: int, longest: int, *, across: int) -> int:
    """Steps between two names on an axis of `across` characters: a few, or whole years of months."""
    least = math.ceil(count * (longest + 3) / across)
    return next((step for step in (1, 2, 3, 6) if step >= least), math.ceil(least / 12) * 12)
