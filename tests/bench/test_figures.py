"""Medians, spreads and ratios, by hand."""

import pytest

from bench.figures import ratios, sensible, spread


def test_a_spread_is_the_median_the_lowest_and_the_highest():
    found = spread([3.0, 1.0, 10.0, 2.0, 4.0])
    assert (found.median, found.low, found.high) == (3.0, 1.0, 10.0)


def test_ratios_are_taken_repeat_by_repeat():
    """The second repeat was twice as slow for both; their ratio does not show it."""
    assert ratios([200.0, 100.0, 220.0], [100.0, 50.0, 100.0]) == [2.0, 2.0, 2.2]


def test_ratios_need_as_many_repeats_on_both_sides():
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


def test_there_is_no_median_of_nothing():
    with pytest.raises(ValueError, match="not one figure"):
        spread([])


def test_a_spread_shows_its_ends_unless_they_are_one():
    assert spread([1.0, 2.0, 4.0]).text(".1f") == "2.0 [1.0–4.0]"
    assert spread([2.0]).text(".1f") == "2.0"


@pytest.mark.parametrize(("value", "shown"), [(4321.0, "4,321"), (43.21, "43.2"), (4.321, "4.32"), (0.04321, "0.043")])
def test_a_figure_shows_about_three_digits(value: float, shown: str):
    assert format(value, sensible(value)) == shown
