"""Drawn pictures: coloured shapes on a light ground, and a caption that the picture decides.

    red circle 14 20 11, blue square 37 24 6  →  a red circle left of a blue square

A scene is a text: the colour and shape of each object, the place of its centre and its radius, in pixels from the top
left corner. Objects have different sizes and do not touch. The caption begins with the largest, and says where it
stands from each of the others, which follow by size: left of, right of, above or below, whichever of the two distances
is clearly the larger one. So every picture has one caption, and every word of it has a place in the picture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy
from numpy.typing import NDArray
from pydantic import Field

from regard.checking import Settings
from regard.errors import RegardError, cut

Numbers = NDArray[numpy.floating]

SIZE = 48  # pixels of a picture, down and across
GROUND = (236, 236, 228)
COLOURS = {
    "red": (214, 48, 49),
    "yellow": (243, 200, 37),
    "green": (54, 160, 78),
    "blue": (46, 98, 206),
    "purple": (146, 74, 178),
    "black": (42, 42, 46),
}
RADII = {1: [(6, 14)], 2: [(10, 12), (6, 8)], 3: [(11, 12), (8, 9), (5, 6)]}  # of the largest object, the next, …
GAP = 2  # pixels between two objects, and between an object and the edge, at least
CLEAR = 6  # pixels by which one of the two distances exceeds the other
PLACES = 20  # tries to find a place for an object
TRIES = 1_000  # scenes begun in which there may be no place for the last object
OBJECT = re.compile(r"([a-z]+) ([a-z]+) (\d{1,3}) (\d{1,3}) (\d{1,3})")


class Thing(NamedTuple):
    """One object of a scene: its colour and shape, its centre, and its radius."""

    colour: str
    shape: str
    x: int
    y: int
    radius: int

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @property
    def words(self) -> tuple[str, str]:
        """What a caption calls it."""
        return self.colour, self.shape

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Its left, upper, right and lower end."""
        return self.x - self.radius, self.y - self.radius, self.x + self.radius, self.y + self.radius


class Drawn(Settings):
    """Scenes with so many objects."""

    objects: int = Field(2, ge=1, le=max(RADII))

    def draw(self, random: Random) -> tuple[str, str]:
        """A scene and its caption."""
        for _ in range(TRIES):
            things: list[Thing] = []
            for radii in RADII[self.objects]:
                thing = self._beside(things, random, *radii)
                if thing is None:
                    break
                things.append(thing)
            else:
                random.shuffle(things)
                return ", ".join(map(str, things)), caption(things)
        raise RegardError(f"no scene of {self.objects} objects was found; ask for fewer objects")

    @staticmethod
    def _beside(things: Sequence[Thing], random: Random, smallest: int, largest: int) -> Thing | None:
        """One more object, which touches none of the others and stands clearly from the first; None if none fits."""
        colour, shape = random.choice(list(COLOURS)), random.choice(list(SHAPES))
        radius = random.randint(smallest, largest)
        for _ in range(PLACES):
            x, y = (random.randint(radius + GAP, SIZE - radius - GAP) for _ in range(2))
            thing = Thing(colour, shape, x, y, radius)
            clear = not things or bool(_relation(things[0], thing))
            if clear and not any(_touch(thing, other) for other in things):
                return thing
        return None


def read_scene(scene: str) -> list[Thing]:
    """The objects of a scene, the largest first."""
    return sorted(_things(scene), key=lambda thing: -thing.radius)


def _things(scene: str) -> Iterator[Thing]:
    for part in scene.split(","):
        found = OBJECT.fullmatch(" ".join(part.split()))
        if found is None:
            raise RegardError(
                f"{cut(part.strip())!r} is not an object of a scene; write its colour, shape, place and radius, "
                "such as: red circle 14 20 11"
            )
        colour, shape, *numbers = found.groups()
        for name, known in ((colour, COLOURS), (shape, SHAPES)):
            if name not in known:
                raise RegardError(f"{name!r} cannot be drawn in a scene; there are {', '.join(known)}")
        x, y, radius = map(int, numbers)
        if not 1 <= radius <= SIZE or max(x, y) > SIZE:
            raise RegardError(f"{cut(part.strip())!r} does not fit into a scene, which has {SIZE} by {SIZE} pixels")
        yield Thing(colour, shape, x, y, radius)


def caption(things: Sequence[Thing]) -> str:
    """The caption of objects, in any order."""
    first, *others = sorted(things, key=lambda thing: -thing.radius)
    placed = [f"{_relation(first, other)} a {other.colour} {other.shape}" for other in others]
    return " ".join([f"a {first.colour} {first.shape}", " and ".join(placed)]).strip()


def _relation(first: Thing, other: Thing) -> str:
    """Where the first stands from the other; empty if that is not clear."""
    across, down = first.x - other.x, first.y - other.y
    if abs(abs(across) - abs(down)) < CLEAR:
        return ""
    if abs(across) > abs(down):
        return "left of" if across < 0 else "right of"
    return "above" if down < 0 else "below"


def _touch(one: Thing, other: Thing) -> bool:
    return max(abs(one.x - other.x), abs(one.y - other.y)) < one.radius + other.radius + GAP


def pictures(scenes: Sequence[str]) -> NDArray[numpy.uint8]:
    """The pictures of N scenes: (N, SIZE, SIZE, 3) in red, green and blue.

    The edge of a shape is smooth: a pixel whose centre is at the signed distance d, in pixels, from the edge is covered
    by clip(½ − d, 0, 1).
    """
    placed = [(number, thing) for number, scene in enumerate(scenes) for thing in read_scene(scene)[::-1]]
    canvas = numpy.full((len(scenes), SIZE, SIZE, 3), GROUND, dtype=numpy.float32)
    at = numpy.arange(SIZE) + 0.5  # the centres of pixels
    for number, thing in placed:
        x, y = (at - thing.x) / thing.radius, (at - thing.y) / thing.radius
        distance = SHAPES[thing.shape](x[None, :], y[:, None]) * thing.radius
        cover = numpy.clip(0.5 - distance, 0, 1)[..., None]  # (SIZE, SIZE, 1)
        canvas[number] += cover * (COLOURS[thing.colour] - canvas[number])
    return canvas.round().astype(numpy.uint8)


def _star(x: Numbers, y: Numbers) -> Numbers:
    """Five points, one of them at the top; each fifth is folded onto the edge from a point to the notch beside it."""
    angle, length = numpy.arctan2(x, -y), numpy.hypot(x, y)
    folded = numpy.abs((angle + numpy.pi / 5) % (2 * numpy.pi / 5) - numpy.pi / 5)
    along, beside = length * numpy.cos(folded), length * numpy.sin(folded)
    notch = 0.42 * numpy.cos(numpy.pi / 5), 0.42 * numpy.sin(numpy.pi / 5)
    edge = numpy.hypot(1 - notch[0], notch[1])
    found: Numbers = ((along - 1) * notch[1] + beside * (1 - notch[0])) / edge
    return found


# the signed distance from the edge of each shape of radius 1, negative inside: x to the right, y down
SHAPES: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "circle": lambda x, y: numpy.hypot(x, y) - 1,
    "square": lambda x, y: numpy.maximum(numpy.abs(x), numpy.abs(y)) - 0.9,
    "triangle": lambda x, y: numpy.maximum(y - 0.85, (2 * numpy.abs(x) - y - 1) / 5**0.5),
    "diamond": lambda x, y: (numpy.abs(x) + numpy.abs(y) - 1) / 2**0.5,
    "star": _star,
    "cross": lambda x, y: numpy.minimum(
        numpy.maximum(numpy.abs(x) - 0.95, numpy.abs(y) - 0.32),
        numpy.maximum(numpy.abs(y) - 0.95, numpy.abs(x) - 0.32),
    ),
}
