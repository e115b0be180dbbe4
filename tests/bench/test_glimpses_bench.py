"""The bench of glimpses: what its pictures show."""

from pathlib import Path

import numpy

from bench import glimpses
from regard.data.made.drawn import SHAPES, SIZE


def test_a_picture_shows_one_shape_which_its_label_names(tmp_path: Path) -> None:
    first, again, other = (
        numpy.load(glimpses.write(tmp_path / f"{number}.npz", count=40, seed=seed))
        for number, seed in enumerate([1, 1, 2])
    )
    assert first["images"].shape == (40, SIZE, SIZE, 3)
    assert set(first["labels"]) <= set(SHAPES)
    dark = (first["images"] < 128).all(-1)  # (N, rows, columns)
    for axis in (1, 2):
        extent = dark.any(axis).sum(1)
        assert extent.min() >= 7
        assert extent.max() <= 15
    assert numpy.array_equal(first["images"], again["images"])
    assert not numpy.array_equal(first["images"], other["images"])
