"""The plots of `python -m bench long`: cost against length, both on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from bench.figures import spread
from bench.results import Result, Table

TIME, MEMORY = "ms", "MB"
COLOURS = {
    "exact": "#666666",
    "window": "#4c72b0",
    "big bird": "#55a868",
    "linformer": "#c44e52",
    "performer": "#8172b2",
}
PLOTS = {"long-time.svg": (TIME, "milliseconds"), "long-memory.svg": (MEMORY, "megabytes")}


def draw(result: Result, folder: Path) -> list[Path]:
    """Both plots as SVG files in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (unit, label) in PLOTS.items():
        paths.append(folder / name)
        with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):  # the same figures, the same file
            _plot(series(result.tables, unit), label).savefig(paths[-1], format="svg", metadata={"Date": None})
    return paths


def series(tables: Sequence[Table], unit: str) -> dict[str, dict[int, float]]:
    """The median of each system by length, from tables of one unit."""
    found: dict[str, dict[int, float]] = {}
    for table in tables:
        if table.unit == unit:
            length = int(table.title.split(", ", 1)[1].split()[0].replace(",", ""))
            for row in table.rows:
                found.setdefault(row.name, {})[length] = spread(row.figures).median
    return found


def _plot(costs: Mapping[str, Mapping[int, float]], label: str) -> Figure:
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for name, points in costs.items():
        colour = next((value for word, value in COLOURS.items() if word in name), "#000000")
        style = ("-" if name.startswith("regard") else "--", "o" if "causal" in name else ".")
        axes.plot(list(points), list(points.values()), color=colour, linestyle=style[0], marker=style[1], label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lengths = sorted({length for points in costs.values() for length in points})
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set_xlabel("positions")
    axes.set_ylabel(f"{label}, forward and backward")
    axes.grid(visible=True, which="major", color="#dddddd")
    axes.legend(fontsize="small")
    return figure
