"""A picture with what was looked at in it, for print: what a word, a glimpse or a layer did not look at is dimmed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy

from regard.look.panels import Panel, panels, pixels
from regard.look.pictures.sheet import ACCENT, DIM, INK, SOFT, Say, Sheet, notes_of, title_of
from regard.look.show import LONGEST, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.look.record import Map, Record

ACROSS = 4  # panels in a row, so that names are readable where the picture is shown small
SIDE = 2.0  # inches of the longer side of a panel


def sheet(record: Record, chosen: Map) -> Sheet:
    """The picture, and beside it a panel for each item that looks."""
    side = record.sides[chosen.key]
    shown, about = panels(record)
    picture = pixels(record, side)
    high, wide = (side.rows or 1, side.columns or 1) if picture is None else picture.shape[:2]
    names = [printable(panel.name, most=LONGEST) for panel in shown]
    count = len(shown) + (picture is not None)
    across = _across(count)
    down = math.ceil(count / across)
    glimpses = record.sides[chosen.query].kind == "steps"

    def paint(figure: Figure, say: Say) -> None:
        every = list(figure.subplots(down, across, squeeze=False).flatten())
        for axis in every:
            axis.set_axis_off()
        if picture is not None:
            own = every.pop(0)
            own.imshow(picture, extent=(0, wide, high, 0))
            if glimpses:
                _path(own, shown, wide, high)
        for axis, panel, name in zip(every, shown, names, strict=False):
            if picture is not None:
                axis.imshow(picture, extent=(0, wide, high, 0))
            _light(axis, panel, wide, high)
            axis.set_title(say(name), fontsize=9, pad=13)
            axis.text(0.5, 1.02, f"{panel.most:.2g}", transform=axis.transAxes, ha="center", fontsize=7, color=SOFT)

    ratio = wide / high
    panel_size = (SIDE, SIDE / ratio) if ratio >= 1 else (SIDE * ratio, SIDE)
    size = max(across * panel_size[0], 5.0), down * (panel_size[1] + 0.45) + 0.8
    notes = ["The number above a panel is the weight of a patch that is fully lit.", *notes_of(record, chosen)]
    if any(panel.start is not None for panel in shown):
        notes.insert(1, "The patch that looks is outlined; arrows lead to the patches with the largest weights.")
    return Sheet(size, title_of(record, about), notes, names, paint)


def _across(count: int) -> int:
    """Panels in a row: few rows, and none that is nearly empty."""
    rows = math.ceil(count / ACROSS)
    return math.ceil(count / rows)


def _light(axis: Axes, panel: Panel, wide: int, high: int) -> None:
    """Cover what was not looked at, and mark windows, the patch that looks, and arrows to the strongest."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    rows, columns = panel.weights.shape
    cover = numpy.empty((rows, columns, 4))
    cover[..., :3] = to_rgb(DIM)
    cover[..., 3] = panel.cover()
    axis.imshow(cover, extent=(0, wide, high, 0), interpolation="nearest")
    across, down = wide / columns, high / rows
    if panel.windows is not None:
        right, below = panel.windows
        for row, column in right.nonzero().tolist():
            axis.plot([(column + 1) * across] * 2, [row * down, (row + 1) * down], color=INK, linewidth=0.8)
        for row, column in below.nonzero().tolist():
            axis.plot([column * across, (column + 1) * across], [(row + 1) * down] * 2, color=INK, linewidth=0.8)
    if panel.start is not None:
        top, left, height, width = (share * size for share, size in zip(panel.start, (high, wide) * 2, strict=True))
        middle = left + width / 2, top + height / 2
        axis.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=ACCENT))
        strongest = panel.strongest()
        for (to_row, to_column), weight in strongest:
            end = ((to_column + 0.5) * across, (to_row + 0.5) * down)
            style = {"arrowstyle": "-|>", "color": ACCENT, "linewidth": 0.4 + 1.6 * weight / strongest[0][1]}
            axis.annotate("", end, middle, arrowprops={**style, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 6})


def _path(axis: Axes, shown: list[Panel], wide: int, high: int) -> None:
    """The path of glimpses through the picture, numbered."""
    rows, columns = shown[0].weights.shape
    found = [panel.focus() for panel in shown]
    points = [(place[1] * wide / columns, place[0] * high / rows) for place in found if place is not None]
    axis.plot(*zip(*points, strict=True), color="white", linewidth=3)
    axis.plot(*zip(*points, strict=True), color=ACCENT, linewidth=1.5)
    for number, (x, y) in enumerate(points):
        box = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": ACCENT}
        axis.text(x, y, str(number + 1), ha="center", va="center", fontsize=6, color=ACCENT, bbox=box)
