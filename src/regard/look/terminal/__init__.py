"""A record in a terminal, in colour where there is colour. What the main map looks at decides how it is drawn.

bars      the weights of a single row, such as those of a pooled set, the largest first
heat      weights as a heat map of Unicode blocks
patches   a picture of half blocks with what was looked at in it, one panel for each word, glimpse or layer
graph     the strongest edges of a graph, with the classes of their nodes
series    the past, a forecast with its interval, and below it the weights over the past
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text
from torch import Tensor

from regard.look.neighbours import is_graph
from regard.look.panels import is_picture, panels
from regard.look.show import LONGEST, axes, main_map, notes, printable
from regard.look.terminal import graph, patches, series
from regard.look.terminal.bars import bars
from regard.look.terminal.heat import MOST_CELLS, fewer, heat_map
from regard.look.timeline import is_series

if TYPE_CHECKING:
    from regard.look.record import Map, Record

__all__ = ["heat_map", "show"]


def show(record: Record, console: Console) -> None:
    """Print the main map averaged over heads, and the answer.

    If the queries are not the items of the answer (a label, for example), the likeliest alternatives follow.
    """
    chosen = main_map(record)
    about = panels(record)[1] if is_picture(record, chosen) else _about(chosen)
    console.print(f"{printable(record.model.get('name', ''))}  {about}\n", highlight=False, markup=False)
    for note in notes(record, chosen):
        console.print(f"{printable(note)}\n", highlight=False, markup=False)
    console.print(_drawn(record, chosen, console), soft_wrap=True)
    if record.answer is None:
        return
    console.print(f"\n{printable(record.answer.text)}", highlight=False, markup=False)
    if all(each.query != "target" for each in record.maps):
        for choices in record.answer.alternatives:
            line = "  ".join(f"{printable(name, most=LONGEST)} {math.exp(logprob):.3f}" for name, logprob in choices)
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def _about(chosen: Map) -> str:
    heads = f"mean of {len(chosen.heads)} heads" if len(chosen.heads) > 1 else f"head {chosen.heads[0]}"
    return f"{printable(chosen.name)}, {heads}"


def _drawn(record: Record, chosen: Map, console: Console) -> Text:
    colour = console.color_system is not None
    if is_picture(record, chosen):
        return patches.drawn(record, chosen, width=console.width, colour=colour)
    if is_graph(record, chosen):
        return graph.drawn(record, chosen, colour=colour)
    if is_series(record.sides.get(chosen.key)):
        return series.drawn(record, chosen, width=console.width, colour=colour)
    weights, (rows, columns) = chosen.weights.mean(0), axes(record, chosen)
    if len(rows) == 1 and chosen.inputs is None:
        return _list(weights[0], rows[0], columns)
    if max(weights.shape) <= MOST_CELLS:
        return heat_map(weights, rows, columns, colour=colour)
    text = Text("Rows are means of several rows, columns sums of several columns.\n\n")
    return text.append_text(heat_map(*fewer(weights, rows, columns), colour=colour))


def _list(weights: Tensor, name: str, columns: Sequence[str]) -> Text:
    order = weights.argsort(descending=True, stable=True).tolist()
    lines = [(float(weights[at]), Text(printable(columns[at], most=LONGEST))) for at in order if weights[at] > 0]
    return Text(f"{printable(name, most=LONGEST)} looks at\n", style="bold").append_text(bars(lines))
