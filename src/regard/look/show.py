"""What all ways of showing a record share: which map first, what its rows and columns are, how a token prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.look.record import Map, Record

LONGEST = 30  # characters of a name beside a picture
ORDER = ("cross", "graph", "image", "self", "gates")


def main_map(record: Record) -> Map:
    """The map to show first: the alignment of the last layer, or else the last of what there is."""
    return max(record.maps, key=lambda each: (-ORDER.index(each.kind), -1 if each.layer is None else each.layer))


def axes(record: Record, each: Map) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a map's rows and columns; of a causal one, the columns are what stood there."""
    return record.sides[each.query].items, each.inputs or record.sides[each.key].items


def printable(text: str, *, most: int | None = None) -> str:
    """As one line that prints: control characters are shown by their picture, what cannot be shown by �.

    With `most`, no more characters than these, the last an ellipsis where some are missing.
    """
    cut = text if most is None or len(text) <= most else f"{text[: most - 1]}…"
    return "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else c if c.isprintable() else "�" for c in cut)
