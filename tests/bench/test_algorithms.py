"""How answers longer than those learned are scored, and how losses of deep stacks are shown."""

import math

import pytest

from bench.algorithms import RECIPE, SYSTEMS, scored
from bench.deep import means
from regard import recipes


def test_symbols_count_in_their_places_and_answers_as_a_whole():
    found = scored([["1", "2"], ["3"], ["4", "5", "6"]], [["1", "2"], ["3", "9"], ["5", "4", "6"]])
    assert found == {"symbols": pytest.approx(100 * (2 + 1 + 1) / (2 + 2 + 3)), "exact": pytest.approx(100 / 3)}
    assert scored([["1", "2", "3"]], [["1"]])["symbols"] == pytest.approx(100 / 3)  # too long is wrong too


@pytest.mark.parametrize("system", SYSTEMS)
def test_systems_differ_in_the_model_alone(system: str):
    values = {"rule": "copy", "more": "", "longest": 9, "layers": 2, "steps": 4, "half": 2, "rate": 0.01}
    values |= {"optimiser": "adam", "threads": 1}
    recipe = recipes.parse(RECIPE.format(kind=SYSTEMS[system].format(offset=7), **values), where=system)
    assert recipe.model.layers == 2
    assert getattr(recipe.model, "offset", 0) == (7 if system == "Universal" else 0)


def test_a_loss_that_is_no_number_is_shown():
    assert means([1.0, 3.0, 5.0], 2) == [2.0, 5.0]
    assert math.isnan(means([1.0, math.nan], 2)[0])
