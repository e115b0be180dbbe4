"""A graph in a terminal: what the node that was asked for looks at, and the strongest edges of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.color import Color
from rich.style import Style
from rich.text import Text

from regard.look.neighbours import Edge, Neighbours
from regard.look.palette import distinct
from regard.look.show import LONGEST, printable
from regard.look.terminal.bars import bars

if TYPE_CHECKING:
    from regard.look.record import Map, Record


def drawn(record: Record, chosen: Map, *, colour: bool) -> Text:
    """Lists of weights, each with a bar and the classes of its nodes."""
    seen = Neighbours.of(record, chosen)
    text = Text()
    if seen.subject is not None:
        text.append_text(_node(seen, seen.subject, colour=colour)).append(" looks at\n", style="bold")
        near = [(weight, _node(seen, node, colour=colour)) for node, weight in seen.looked_at(seen.subject)]
        text.append_text(bars(near)).append("\n\n")
    text.append("the strongest edges\n", style="bold")
    both = {pair: float(seen.weights[pair]) for edge in seen.edges for pair in (edge, edge[::-1])}
    strongest = sorted((pair for pair in both if both[pair] > 0), key=lambda pair: -both[pair])
    return text.append_text(bars([(both[pair], _pair(seen, pair, colour=colour)) for pair in strongest]))


def _pair(seen: Neighbours, pair: Edge, *, colour: bool) -> Text:
    return Text(" → ").join(_node(seen, node, colour=colour) for node in pair)


def _node(seen: Neighbours, node: int, *, colour: bool) -> Text:
    """The name of a node and its class, in the colour of the class."""
    name = printable(seen.names[node], most=LONGEST)
    if not seen.label(node):
        return Text(name)
    colours = distinct()
    number = seen.classes.index(seen.labels[node]) % len(colours)
    red, green, blue = (round(255 * part) for part in colours[number])
    style = Style(color=Color.from_rgb(red, green, blue)) if colour else Style()
    return Text.assemble(name, " ", ("● ", style) if colour else "", f"({printable(seen.labels[node], most=LONGEST)})")
