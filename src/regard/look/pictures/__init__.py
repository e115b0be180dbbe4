"""A record as a picture for print: .png, .svg, .pdf. What the main map looks at decides how it is drawn.

heat      weights as heat maps, one for each head
patches   a picture with what was looked at in it, one panel for each word, glimpse or layer
graph     nodes with the colours of their classes, and edges as wide as their weights
series    the past, a forecast with its intervals, and the weights over the past below
sheet     the title, the notes and the fonts of all of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.look.neighbours import is_graph
from regard.look.panels import is_picture
from regard.look.pictures import graph, heat, patches, series
from regard.look.pictures.sheet import finished
from regard.look.show import main_map
from regard.look.timeline import is_series

if TYPE_CHECKING:
    from regard.look.record import Record

SUFFIXES = (".png", ".svg", ".pdf")


def draw(record: Record, suffix: str) -> bytes:
    """The picture of a record's main map (its alignment, if there is one), as a file of the kind of `suffix`."""
    chosen = main_map(record)
    if is_picture(record, chosen):
        sheet = patches.sheet(record, chosen)
    elif is_graph(record, chosen):
        sheet = graph.sheet(record, chosen)
    elif is_series(record.sides.get(chosen.key)):
        sheet = series.sheet(record, chosen)
    else:
        sheet = heat.sheet(record, chosen)
    return finished(sheet, suffix)
