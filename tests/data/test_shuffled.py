"""An order that is computed where it is needed: every row once, wherever it is taken from."""

import numpy
from hypothesis import given
from hypothesis import strategies as st

from regard.data.order import Shuffled


@given(st.integers(1, 3000), st.integers(0, 9), st.integers(1, 700))
def test_it_is_a_permutation_however_it_is_taken(size: int, seed: int, step: int) -> None:
    order = Shuffled(size, [seed])
    whole = order.take(0, size)
    assert sorted(whole.tolist()) == list(range(size))
    parts = [order.take(begin, begin + step) for begin in range(0, size, step)]
    assert numpy.concatenate(parts).tolist() == whole.tolist()


def test_it_looks_random_and_follows_the_seed() -> None:
    first, second = Shuffled(100_000, [1]).take(0, 100_000), Shuffled(100_000, [2]).take(0, 100_000)
    assert (first == second).sum() < 20
    assert abs(numpy.corrcoef(first, numpy.arange(100_000))[0, 1]) < 0.02
    assert abs(numpy.corrcoef(first[1:], first[:-1])[0, 1]) < 0.02
    counts = numpy.bincount(first[:10_000] // 1000, minlength=100)  # 10,000 rows in 100 equal parts
    assert counts.min() > 60
    assert counts.max() < 140
