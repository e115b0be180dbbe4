"""Weights as heat maps for print: one for each head of a map; a single head is large."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from regard.look.palette import ramp
from regard.look.pictures.sheet import Say, Sheet, named, notes_of, title_of
from regard.look.show import LONGEST, axes, printable, scale_end

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.look.record import Map, Record

MOST = 60  # items named on an axis; with more items, only every second, third, … is named


def sheet(record: Record, chosen: Map) -> Sheet:
    """The heads share one colour scale, which a bar explains."""
    heads = len(chosen.heads)
    columns = math.ceil(math.sqrt(heads))
    rows = math.ceil(heads / columns)
    long, wide = chosen.weights.shape[1:]
    cell = 0.3 if heads == 1 else 0.18
    width = min(max(cell * min(wide, MOST) + 1.2, 2.6), 12)
    height = min(max(cell * min(long, MOST) + 1.0, 2.2), 12)
    names = [[printable(item, most=LONGEST) for item in items] for items in axes(record, chosen)]
    below = notes_of(record, chosen)
    largest = float(chosen.weights.max()) if chosen.weights.numel() else 0.0
    end = max((scale_end(weights, chosen.kind) for weights in chosen.weights), default=0.0)
    if end < largest:
        below.append(f"Colours end at {end:.2f}; larger weights, up to {largest:.2f}, have the last colour.")

    def paint(figure: Figure, say: Say) -> None:
        from matplotlib.colors import ListedColormap

        axis_of = figure.subplots(rows, columns, squeeze=False).flatten()
        said = [[say(name) for name in side] for side in names]
        for place, axis in enumerate(axis_of):
            if place < heads:
                image = axis.imshow(
                    chosen.weights[place].numpy(),
                    cmap=ListedColormap(ramp().tolist()),
                    vmin=0,
                    vmax=end or 1,
                    aspect="auto",
                    interpolation="nearest",
                )
                _name(axis, said, f"head {chosen.heads[place]}" if heads > 1 else "")
            else:
                axis.set_axis_off()
        bar = figure.colorbar(image, ax=list(axis_of), extend="max" if end < largest else "neither", shrink=0.8)
        bar.set_label("weight")

    size = columns * width + 0.8, rows * height
    return Sheet(size, title_of(record, named(chosen)), below, [*names[0], *names[1]], paint)


def _name(axis: Axes, names: list[list[str]], below: str) -> None:
    """The names of rows and columns, as many as can be read."""
    for items, set_ticks in zip(names, (axis.set_yticks, axis.set_xticks), strict=True):
        step = max(math.ceil(len(items) / MOST), 1)
        set_ticks(range(0, len(items), step), items[::step])
    axis.xaxis.tick_top()
    axis.tick_params(axis="x", rotation=90, length=0)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel(below)
