"""Shared by all ways of showing a record: the first map, the names of its rows and columns, how a token prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from regard.look.record import Map, Record

LONGEST = 30  # characters of a name beside a picture
SWALLOWING = 0.2  # a column that has at least this share of a map's weight may not set the scale of its colours
ORDER = ("cross", "graph", "image", "self", "gates")


def main_map(record: Record) -> Map:
    """The map to show first: the alignment of the last layer, or otherwise the last map.

    A map without a layer, such as that of a pooling, comes after all layers. Maps whose columns are numbers, such as
    steps and experts, are shown last, unless the steps are those of a series.
    """

    def rank(each: Map) -> tuple[bool, int, float]:
        side = record.sides.get(each.key)
        numbered = side is not None and side.kind == "steps" and side.values is None
        return not numbered, -ORDER.index(each.kind), math.inf if each.layer is None else each.layer

    return max(record.maps, key=rank)


def axes(record: Record, each: Map) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a map's rows and columns.

    The columns of a causal map are the tokens read; a row "x ▸ y" has the weights from x, the last token read, when y
    was predicted.
    """
    rows, columns = record.sides[each.query].items, each.inputs or record.sides[each.key].items
    if each.inputs is not None and len(each.inputs) == len(rows):
        rows = tuple(f"{read} ▸ {said}" for read, said in zip(each.inputs, rows, strict=True))
    return rows, columns


def notes(record: Record, each: Map) -> tuple[str, ...]:
    """The sentences to show with a map of a record: the record's own, which part of all weights the map has, and what
    the rows of a causal map mean."""
    causal = "A row x ▸ y has the weights from x, the last token read, when y was predicted."
    return (*record.notes, *([each.part] if each.part else []), *([causal] if each.inputs is not None else []))


def printable(text: str, *, most: int | None = None) -> str:
    """The text as one line that prints: control characters become their symbols, characters that cannot be shown �.

    With `most`, a longer text is cut to that many characters, the last an ellipsis.
    """
    cut = text if most is None or len(text) <= most else f"{text[: most - 1]}…"
    return "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else c if c.isprintable() else "�" for c in cut)


def scale_end(weights: Tensor, kind: str) -> float:
    """The weight at which the colours of a map (Q, K) end; larger weights have the last colour.

    It is the largest weight, but in self-attention without two things that tell little and would make the rest pale: a
    first or last row that sees one item alone (of a causal map, 1 by necessity), and columns that most rows look at,
    such as [CLS]. It is at least an eighth of the largest weight. The page does the same, in `scale_end.js`.
    """
    largest = float(weights.max()) if weights.numel() else 0.0
    queries, keys = weights.shape
    if kind != "self" or queries < 2 or keys < 4:
        return largest
    outer = [row for row in (0, queries - 1) if int(weights[row].count_nonzero()) <= 1]
    rows = weights[[row for row in range(queries) if row not in outer]]
    rest = rows[:, rows.mean(0) < max(SWALLOWING, 3 / keys)]
    return max(float(rest.max()) if rest.numel() else 0.0, largest / 8)
