"""A graph for print: nodes with the colours of their classes, edges as wide as their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from regard.look.neighbours import Neighbours
from regard.look.palette import distinct
from regard.look.pictures.sheet import ACCENT, INK, SOFT, Say, Sheet, named, notes_of, title_of
from regard.look.show import LONGEST, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.look.record import Map, Record

SIZE = 7.5, 5.5
MOST_NAMES = 80  # with more nodes, only the one asked for and those that it looks at are named
MARKERS = "osD^v"  # the first has the first eight classes, the next the next eight
WIDEST = 6.0
WORTH_A_NUMBER = 0.02


def sheet(record: Record, chosen: Map) -> Sheet:
    """All edges; those of the node that the answer is about have a colour of their own, and their weights."""
    seen = Neighbours.of(record, chosen)
    names = [printable(name, most=LONGEST) for name in seen.names]
    classes = [printable(name, most=LONGEST) for name in seen.classes]

    def paint(figure: Figure, say: Say) -> None:
        axis = figure.subplots()
        axis.set_axis_off()
        axis.margins(0.08)
        places = seen.places() * [1, -1]
        _edges(axis, seen, places)
        _nodes(axis, seen, places, [say(name) for name in classes])
        _names(axis, seen, places, [say(name) for name in names])

    heads = "mean of heads" if len(chosen.heads) > 1 else f"head {chosen.heads[0]}"
    notes = ["The wider an edge, the larger the weight of either end on the other.", *notes_of(record, chosen)]
    if seen.subject is not None:
        own = float(seen.weights[seen.subject, seen.subject])
        itself = f" It looks at itself with the weight {own:.2f}." if own >= WORTH_A_NUMBER else ""
        edges = f"Blue edges and numbers: what {names[seen.subject]} looks at.{itself}"
        notes.insert(0, edges if seen.weights[seen.subject].any() else f"{names[seen.subject]} looks at nothing.")
    return Sheet(SIZE, title_of(record, f"{named(chosen)}, {heads}"), notes, [*names, *classes], paint)


def _edges(axis: Axes, seen: Neighbours, places: NDArray[numpy.float64]) -> None:
    """Edges of the node asked for show what it looks at; all others the larger weight of both directions.

    The widest is that of the largest weight, be it one of a node on itself, which has no edge in the picture.
    """
    own = {edge: edge[1] if edge[0] == seen.subject else edge[0] for edge in seen.edges if seen.subject in edge}
    weights = {edge: seen.weight(edge) for edge in seen.edges if edge not in own}
    weights |= {edge: float(seen.weights[seen.subject or 0, other]) for edge, other in own.items()}
    itself = 0.0 if seen.subject is None else float(seen.weights[seen.subject, seen.subject])
    most = max([itself, *weights.values(), WORTH_A_NUMBER])
    for edge, weight in weights.items():
        x, y = places[list(edge)].T
        colour = ACCENT if edge in own or seen.subject is None else SOFT
        width, share = 0.5 + WIDEST * weight / most, weight / most
        faint = 0.5 if edge in own else 0.25
        axis.plot(x, y, color=colour, linewidth=width, alpha=faint + 0.4 * share, solid_capstyle="round", zorder=1)
        if edge in own and weight >= WORTH_A_NUMBER:
            box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
            at = 0.4 * places[seen.subject or 0] + 0.6 * places[own[edge]]
            axis.text(at[0], at[1], f"{weight:.2f}", ha="center", va="center", fontsize=8, bbox=box, zorder=2)


def _nodes(axis: Axes, seen: Neighbours, places: NDArray[numpy.float64], classes: list[str]) -> None:
    """Nodes by their classes, with a legend; the one asked for is larger."""
    colours = distinct()
    size = 60.0 if len(places) <= MOST_NAMES else 25.0
    for number, name in enumerate([*seen.classes, ""]):
        of_class = [node for node in range(len(places)) if seen.label(node) == name]
        colour = tuple(colours[number % len(colours)]) if name else "white"
        marker = MARKERS[number // len(colours) % len(MARKERS)] if name else MARKERS[0]
        x, y = places[of_class].T
        axis.scatter(
            x,
            y,
            s=[3 * size if node == seen.subject else size for node in of_class],
            linewidths=[2.0 if node == seen.subject else 0.7 for node in of_class],
            color=colour,
            edgecolors=INK,
            marker=marker,
            zorder=3,
        )
        if name:
            axis.scatter([], [], s=60.0, color=colour, edgecolors=INK, marker=marker, label=classes[number])
    if seen.classes:
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9, title="label")


def _names(axis: Axes, seen: Neighbours, places: NDArray[numpy.float64], names: list[str]) -> None:
    near = set() if seen.subject is None else {node for node, _ in seen.looked_at(seen.subject)}
    for node, place in enumerate(places):
        if len(names) <= MOST_NAMES or node in near or node == seen.subject:
            main = node == seen.subject
            axis.annotate(
                names[node],
                (place[0], place[1]),
                (10 if main else 6, 0),
                textcoords="offset points",
                va="center",
                fontsize=10 if main else 9,
                weight="bold" if main else "normal",
                color=INK,
                zorder=4,
            )
