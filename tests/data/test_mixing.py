"""Several corpora in one: proportions, and passes that leave no example out."""

from collections import Counter

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.checking import check
from regard.data.mixing import Mixing
from regard.data.pairs.examples import PairsData
from regard.errors import RegardError

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=5)


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[list[int], Mixing]:
    sizes = draw(SIZES)
    weights = draw(st.lists(st.floats(0.1, 10), min_size=len(sizes), max_size=len(sizes)))
    return sizes, Mixing(tuple(weights), draw(st.floats(0.3, 50)))


@given(mixtures())
def test_an_epoch_has_the_stated_share_of_each_corpus(mixture: tuple[list[int], Mixing]) -> None:
    sizes, mixing = mixture
    wanted = (numpy.array(sizes) * numpy.array(mixing.weights)) ** (1 / mixing.temperature)
    counts = mixing.counts(sizes)
    assert sum(counts) == sum(sizes)
    assert (abs(numpy.array(counts) - wanted / wanted.sum() * sum(sizes)) < 1 + 1e-6).all()


@given(SIZES, st.integers(0, 9), st.integers(0, 9))
def test_equal_weights_and_temperature_one_are_every_example_once(sizes: list[int], seed: int, epoch: int) -> None:
    rows = Mixing((3.0,) * len(sizes)).rows(sizes, seed=seed, epoch=epoch)
    assert sorted(rows.tolist()) == list(range(sum(sizes)))


@given(mixtures(), st.integers(0, 9), st.integers(1, 6))
def test_no_example_comes_again_before_all_others_of_its_corpus(
    mixture: tuple[list[int], Mixing], seed: int, epochs: int
) -> None:
    sizes, mixing = mixture
    rows = [row for epoch in range(epochs) for row in mixing.rows(sizes, seed=seed, epoch=epoch).tolist()]
    seen, start = Counter(rows), 0
    for size, count in zip(sizes, mixing.counts(sizes), strict=True):
        times = [seen[row] for row in range(start, start + size)]
        assert sum(times) == count * epochs
        assert max(times) - min(times) <= 1
        start += size


def test_a_high_temperature_makes_corpora_equal() -> None:
    assert Mixing((1.0, 1.0), 1e9).counts([10, 990]) == [500, 500]
    assert Mixing((1.0, 1.0)).counts([10, 990]) == [10, 990]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"train": "a.tsv", "mix": [{"path": "b.tsv"}]}, "train and mix are both given"),
        ({"train": "a.tsv", "temperature": 2.0}, "there is nothing to mix"),
        ({"mix": [{"path": "b.tsv", "weight": 0.0}]}, "weight"),
        ({"mix": [{"path": "b.tsv", "wait": 1.0}]}, "wait"),
    ],
)
def test_what_cannot_be_mixed_is_told(data: dict[str, object], said: str) -> None:
    with pytest.raises(RegardError, match=said):
        check(PairsData, data, where="data")
