"""A record as a picture for print: .png, .svg, .pdf."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.look.show import LONGEST, axes, main_map, printable

if TYPE_CHECKING:
    from regard.look.record import Map, Record

SUFFIXES = (".png", ".svg", ".pdf")
MOST = 60  # items named on an axis; of more, every second, third, … has its name
STYLE = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "regard", "pdf.fonttype": 42}


def draw(record: Record, path: Path) -> None:
    """One heat map for each head of the record's main map (its alignment, if there is one); a single head is large."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    chosen = main_map(record)
    heads = len(chosen.heads)
    columns = math.ceil(math.sqrt(heads))
    rows = math.ceil(heads / columns)
    long, wide = chosen.weights.shape[1:]
    cell = 0.3 if heads == 1 else 0.18
    width = min(max(cell * min(wide, MOST) + 1.2, 2.6), 12)
    height = min(max(cell * min(long, MOST) + 1.0, 2.2), 12)
    with rc_context(STYLE):
        figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for place, axis in enumerate(axes):
            if place < heads:
                _heat_map(axis, record, chosen, place)
            else:
                axis.set_axis_off()
        layer = "" if chosen.layer is None else f", layer {chosen.layer}"
        title = f"{printable(record.title, most=LONGEST * 4)}\n{printable(chosen.name, most=LONGEST * 2)}{layer}"
        figure.suptitle(title, fontsize=10, parse_math=False)
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)


def _heat_map(axis: Any, record: Record, chosen: Map, place: int) -> None:
    weights = chosen.weights[place].numpy()
    axis.imshow(
        weights,
        cmap="cividis",
        vmin=0,
        vmax=1 if chosen.sums == "one" else None,
        aspect="auto",
        interpolation="nearest",
    )
    for items, set_ticks in zip(axes(record, chosen), (axis.set_yticks, axis.set_xticks), strict=True):
        step = math.ceil(len(items) / MOST)
        names = [printable(item, most=LONGEST) for item in items[::step]]
        set_ticks(range(0, len(items), step), names, parse_math=False)  # "$5 and $6" is no formula
    axis.xaxis.tick_top()
    axis.tick_params(axis="x", rotation=90, length=0)
    axis.tick_params(axis="y", length=0)
    if len(chosen.heads) > 1:
        axis.set_xlabel(f"head {chosen.heads[place]}")
