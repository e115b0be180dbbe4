"""A picture and what is looked at in it, as panels: one for each word, glimpse or layer, for print and the terminal.

The items of a side of patches are those that stand before the patches, such as a class token, and then the patches row
by row.   r rows  c columns  N = r · c patches
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from regard.look.show import main_map, printable
from regard.tasks.base import Side

if TYPE_CHECKING:
    from regard.look.record import Map, Record

MOST = 11  # panels beside the picture itself
HIDDEN = 0.88  # how much of a patch that is not looked at is covered
STRONGEST = 8  # patches that arrows lead to
LARGEST = 1024  # pixels of a side of the picture

T = TypeVar("T")
Pixels = NDArray[numpy.uint8]  # (height, width, 3)
Place = tuple[int, int]  # row, column
Box = tuple[float, float, float, float]  # top, left, height and width, in heights and widths of the picture


@dataclass(frozen=True)
class Panel:
    """What one item looks at in a picture."""

    name: str
    weights: Tensor  # (r, c)
    start: Box | None = None  # the patch that looks
    windows: tuple[Tensor, Tensor] | None = None  # whether a border is right of (r, c-1) and below (r-1, c) a patch

    @property
    def most(self) -> float:
        """The weight of what is fully lit."""
        return float(self.weights.max()) if self.weights.numel() else 0.0

    def cover(self) -> NDArray[numpy.float64]:
        """How much each patch is covered (r, c): nothing of the patch with the largest weight."""
        share = (self.weights.clamp(min=0) / (self.most or 1.0)).double().numpy()
        covered: NDArray[numpy.float64] = HIDDEN * (1 - share)
        return covered

    def focus(self) -> tuple[float, float] | None:
        """The middle of what is looked at: (row, column)."""
        total = float(self.weights.sum())
        rows, columns = (torch.arange(count) + 0.5 for count in self.weights.shape)
        if not total > 0:
            return None
        return float(self.weights.sum(1) @ rows) / total, float(self.weights.sum(0) @ columns) / total

    def strongest(self) -> list[tuple[Place, float]]:
        """The other patches with the largest weights, the strongest first."""
        rows, columns = self.weights.shape
        order = self.weights.flatten().argsort(descending=True, stable=True).tolist()
        places = [divmod(number, columns) for number in order]
        found = [(place, float(self.weights[place])) for place in places if _box(place, rows, columns) != self.start]
        return [(place, weight) for place, weight in found if weight > 0][:STRONGEST]


def panels(record: Record) -> tuple[list[Panel], str]:
    """The panels of a record whose main map looks at patches, and what they show, in words.

    Where words or glimpses look, each has a panel; a single one, such as a label that pools, also has one of what
    reaches it through the layers below. Where patches look at patches, each layer has one: of the class token, or of
    the patch that is looked at most.
    """
    chosen = main_map(record)
    if record.sides[chosen.query].kind != "patches":
        return _of_queries(record, chosen)
    maps = [each for each in record.maps if _between_patches(record, each)]
    token = _before(record.sides[chosen.query], chosen.weights.shape[1]) > 0
    some, left = _few(maps, MOST - 1)
    found = [_of_map(record, each) for each in some]
    reached = rollout(maps) if token else None
    if reached is not None:
        found.append(_from_row("rollout", reached[0], record.sides[chosen.key]))
    who = printable(record.sides[chosen.query].items[0]) if token else "the patch that is looked at most"
    return found, f"what {who} looks at{_heads(chosen)}{left}"


def is_picture(record: Record, each: Map) -> bool:
    """Whether a map looks at the patches of a picture."""
    side = record.sides.get(each.key)
    return side is not None and side.kind == "patches" and _patches(side) <= each.weights.shape[2]


def pixels(record: Record, side: Side) -> Pixels | None:
    """The picture of a side, or that of another side of the same picture."""
    found = side.picture or next((each.picture for each in record.sides.values() if each.picture), None)
    if found is None or not found.startswith("data:image/"):
        return None
    try:
        with Image.open(io.BytesIO(base64.b64decode(found.partition(",")[2]))) as opened:
            opened.thumbnail((LARGEST, LARGEST))
            return numpy.asarray(opened.convert("RGB"))
    except (ValueError, OSError, UnidentifiedImageError):
        return None


def windows(weights: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor] | None:
    """The borders of windows in weights (N, N): neighbours apart have no key in common that both look at."""
    seen = (weights > 0).view(rows, columns, -1)
    right = ~(seen[:, 1:] & seen[:, :-1]).any(-1)
    below = ~(seen[1:] & seen[:-1]).any(-1)
    return (right, below) if bool(right.any() | below.any()) else None


def rollout(maps: Sequence[Map]) -> Tensor | None:
    """Attention through all layers, half of each by the residual (Abnar & Zuidema 2020); None for a single layer.

    R_0 = I,   R_l = A_l R_{l-1},   A_l = rows of (½ mean over heads + ½ I), made to sum to one
    """
    shapes = {each.weights.shape[1:] for each in maps}
    if len(maps) < 2 or len(shapes) > 1 or any(each.query != each.key for each in maps):
        return None
    reached = torch.eye(next(iter(shapes))[0])
    for each in maps:
        mixed = each.weights.mean(0) + torch.eye(len(reached))
        reached = mixed / mixed.sum(-1, keepdim=True) @ reached
    return reached


def _of_queries(record: Record, chosen: Map) -> tuple[list[Panel], str]:
    weights, side = chosen.weights.mean(0), record.sides[chosen.key]
    names = record.sides[chosen.query].items
    some, left = _few(range(len(weights)), MOST)
    found = [_from_row(names[row], weights[row], side) for row in some]
    below = rollout([each for each in record.maps if each.query == each.key == chosen.key])
    if len(weights) == 1 and below is not None:
        found.append(_from_row("rollout", weights[0] @ below, side))
    who = printable(names[0]) if len(weights) == 1 else "each item"
    return found, f"what {who} looks at{_heads(chosen)}{left}"


def _of_map(record: Record, each: Map) -> Panel:
    """What the class token looks at in a layer, or the patch that is looked at most."""
    weights, side, looking = each.weights.mean(0), record.sides[each.key], record.sides[each.query]
    name = each.name if each.layer is None else f"layer {each.layer}"
    before = _before(looking, len(weights))
    if before > 0:
        return _from_row(name, weights[0], side)
    rows, columns, down, across = looking.rows or 1, looking.columns or 1, side.rows or 1, side.columns or 1
    row, column = divmod(int(weights[:, _before(side, weights.shape[1]) :].mean(0).argmax()), across)
    place = row * rows // down, column * columns // across  # the same place in the grid of the patches that look
    between = windows(weights, rows, columns) if each.query == each.key else None
    start = _box(place, rows, columns)
    return _from_row(name, weights[place[0] * columns + place[1]], side, start=start, between=between)


def _from_row(
    name: str,
    row: Tensor,
    side: Side,
    *,
    start: Box | None = None,
    between: tuple[Tensor, Tensor] | None = None,
) -> Panel:
    rows, columns = side.rows or 1, side.columns or 1
    return Panel(name, row[_before(side, len(row)) :].view(rows, columns), start, between)


def _box(place: Place, rows: int, columns: int) -> Box:
    return place[0] / rows, place[1] / columns, 1 / rows, 1 / columns


def _heads(chosen: Map) -> str:
    return ", mean of heads" if len(chosen.heads) > 1 else f", head {chosen.heads[0]}"


def _between_patches(record: Record, each: Map) -> bool:
    return is_picture(record, each) and record.sides[each.query].kind == "patches"


def _patches(side: Side) -> int:
    return (side.rows or 1) * (side.columns or 1)


def _before(side: Side, count: int) -> int:
    """How many of `count` items stand before the patches of a side."""
    return max(count - _patches(side), 0)


def _few(items: Sequence[T], most: int) -> tuple[list[T], str]:
    """At most so many of the items, evenly spread, and the words that say so if there are more."""
    if len(items) <= most:
        return list(items), ""
    places = numpy.linspace(0, len(items) - 1, most).round().astype(int).tolist()
    return [items[place] for place in places], f"; {most} of {len(items)} are shown"
