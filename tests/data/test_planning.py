"""Rows into batches: each once, within the budget, with little padding."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray

from regard.data.planning import Rows, balanced, plan
from regard.errors import RegardError

LENGTHS = some.lists(some.tuples(some.integers(1, 29), some.integers(1, 31)), min_size=1, max_size=211)


def arrays(lengths: list[tuple[int, int]]) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32]]:
    source, target = numpy.array(lengths, dtype=numpy.int32).T
    return source, target


@given(lengths=LENGTHS, budget=some.integers(31, 307), seed=some.integers(0, 5))
@settings(max_examples=50)
def test_every_row_is_once_in_a_batch_within_the_budget(lengths: list[tuple[int, int]], budget: int, seed: int) -> None:
    source, target = arrays(lengths)
    batches = plan(source, target, budget=budget, generator=numpy.random.default_rng(seed))
    assert sorted(numpy.concatenate(batches).tolist()) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) * max(source[rows].max(), target[rows].max()) <= budget


def test_rows_of_like_length_go_together() -> None:
    """Lengths as of sentences and their translations: two sides that go together, not quite."""
    generator = numpy.random.default_rng(0)
    source = generator.gamma(9, 1.7, 20_011).astype(int) + 3
    target = numpy.maximum(source * generator.normal(1.1, 0.15, len(source)), 2).astype(int)
    batches = plan(source, target, budget=4099, generator=generator)
    used = (source + target).sum()
    cells = sum(len(rows) * (source[rows].max() + target[rows].max()) for rows in batches)
    assert 1 - used / cells < 0.05
    assert len(batches) < 1.2 * numpy.maximum(source, target).sum() / 4099


def test_a_row_over_the_budget_is_an_error_that_names_it() -> None:
    with pytest.raises(RegardError, match=r"batch_tokens=13 is less than the longest row, 17 tokens"):
        plan(numpy.array([3, 17]), numpy.array([5, 2]), budget=13, generator=numpy.random.default_rng(0))


def slowness(rows: Rows, lengths: NDArray[numpy.int64]) -> int:
    """Cells of both tables, and tokens."""
    sides = lengths[:, rows]
    return int(len(rows) * sides.max(1).sum() + sides.sum())


@given(some.lists(some.integers(1, 30), min_size=1, max_size=6), some.integers(0, 99))
def test_balanced_batches_have_the_same_rows_no_larger_tables_and_no_slower_one(sizes: list[int], seed: int) -> None:
    drawn = numpy.random.default_rng(seed)
    lengths = drawn.integers(1, drawn.integers(2, 40), (2, sum(sizes)))
    given_batches = numpy.split(drawn.permutation(sum(sizes)), numpy.cumsum(sizes)[:-1])
    found = balanced(given_batches, lengths)
    assert len(found) == len(sizes)
    assert all(map(len, found))
    assert sorted(numpy.concatenate(found).tolist()) == list(range(sum(sizes)))
    tables = [[len(rows) * lengths[:, rows].max() for rows in each] for each in (found, given_batches)]
    assert max(tables[0]) <= max(tables[1])
    slowest, before = (max(slowness(rows, lengths) for rows in each) for each in (found, given_batches))
    assert slowest <= before


@pytest.mark.parametrize("world", [2, 4])
def test_processes_wait_less_for_the_slowest_of_balanced_batches(world: int) -> None:
    """Without balance, steps take a sixth longer than if no process waited."""
    drawn = numpy.random.default_rng(1)
    source = drawn.poisson(12, 6000) + 2
    lengths = numpy.stack([source, numpy.maximum(source + drawn.integers(-4, 5, 6000), 1)])
    batches = plan(*lengths, budget=512, generator=drawn)
    order = [batches[number] for number in drawn.permutation(len(batches) // world * world)]
    groups = [order[begin : begin + world] for begin in range(0, len(order), world)]
    ideal = sum(slowness(rows, lengths) for rows in order) / world
    waiting, balance = (
        sum(max(slowness(rows, lengths) for rows in group) for group in each) / ideal
        for each in (groups, [balanced(group, lengths) for group in groups])
    )
    assert waiting > 1.1
    assert balance < 1.06
