"""Drawn pictures: what the scene says is on the picture, and the caption says what is there."""

from random import Random

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.data import made
from regard.data.made import drawn
from regard.data.made.drawn import COLOURS, GROUND, SHAPES, SIZE, Drawn, Thing
from regard.errors import RegardError


@given(seed=some.integers(0, 2**32), objects=some.integers(1, 3))
def test_a_scene_decides_its_caption(seed: int, objects: int) -> None:
    scene, caption = Drawn(objects=objects).draw(Random(seed))
    parts = [part.split() for part in scene.split(", ")]
    by_size = sorted(((int(r), int(x), int(y), colour, shape) for colour, shape, x, y, r in parts), reverse=True)
    assert len({thing[0] for thing in by_size}) == objects
    first, *others = by_size
    told = []
    for other in others:
        across, down = first[1] - other[1], first[2] - other[2]
        assert abs(abs(across) - abs(down)) >= drawn.CLEAR
        sides = ("left of", "right of") if abs(across) > abs(down) else ("above", "below")
        told.append(f"{sides[(across if abs(across) > abs(down) else down) > 0]} a {other[3]} {other[4]}")
    assert caption == f"a {first[3]} {first[4]} {' and '.join(told)}".strip()


@given(seed=some.integers(0, 2**32), objects=some.integers(1, 3))
def test_objects_lie_in_their_boxes_and_do_not_touch(seed: int, objects: int) -> None:
    scene, _ = Drawn(objects=objects).draw(Random(seed))
    (picture,) = drawn.pictures([scene]).astype(int)
    painted = (numpy.abs(picture - GROUND) > 8).any(-1)
    boxes = numpy.zeros((SIZE, SIZE), dtype=int)
    for thing in drawn.read_scene(scene):
        left, upper, right, lower = thing.box
        inside = numpy.s_[max(upper - 1, 0) : lower + 1, max(left - 1, 0) : right + 1]  # an edge may be half a pixel
        boxes[inside] += 1
        assert painted[inside].sum() > 0.3 * (2 * thing.radius) ** 2 * (thing.shape not in ("star", "cross"))
        assert (picture[thing.y, thing.x] == COLOURS[thing.colour]).all()
    assert boxes.max() == 1
    assert not painted[boxes == 0].any()


def test_the_area_of_each_shape_is_that_of_its_geometry() -> None:
    notch = 0.42 * numpy.sin(numpy.pi / 5)
    areas = {
        "circle": numpy.pi,
        "square": 1.8**2,
        "triangle": 1.85**2 / 2,
        "diamond": 2.0,
        "star": 5 * notch,
        "cross": 4 * (2 * 0.95 * 0.32) - (2 * 0.32) ** 2,
    }
    assert areas.keys() == SHAPES.keys()
    for shape, area in areas.items():
        (picture,) = drawn.pictures([f"black {shape} 24 24 20"]).astype(float)
        share = (GROUND[0] - picture[..., 0]) / (GROUND[0] - COLOURS["black"][0])
        assert share.sum() / 20**2 == pytest.approx(area, rel=0.02), shape


def test_captions_have_every_word_and_pictures_are_drawn_alike_in_any_batch() -> None:
    rows = list(made.rows("drawn:train?examples=400")) + list(made.rows("drawn:valid?examples=50&objects=3"))
    words = {word for _, caption in rows for word in caption.split()}
    assert words == {*COLOURS, *SHAPES, "a", "left", "right", "of", "above", "below", "and"}
    scenes = [scene for scene, _ in rows[:20]]
    together = drawn.pictures(scenes)
    assert together.shape == (20, SIZE, SIZE, 3)
    assert all((drawn.pictures([scene])[0] == one).all() for scene, one in zip(scenes, together, strict=True))


def test_what_is_no_scene_is_refused_by_its_part() -> None:
    assert drawn.read_scene("blue star 3 4 5,  red  cross 40 40 6 ") == [
        Thing("red", "cross", 40, 40, 6),
        Thing("blue", "star", 3, 4, 5),
    ]
    for scene, told in {
        "red circle": "'red circle' is not an object of a scene",
        "": "is not an object",
        "pink circle 1 2 3": "'pink' cannot be drawn in a scene; there are red",
        "red line 1 2 3": "'line' cannot be drawn",
        "red circle 1 2 0": "does not fit",
        "red circle 100 2 4": "48 by 48 pixels",
    }.items():
        with pytest.raises(RegardError, match=told):
            drawn.read_scene(scene)
    with pytest.raises(RegardError, match="objects"):
        next(made.rows("drawn:train?objects=4"))
