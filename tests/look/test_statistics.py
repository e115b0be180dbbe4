"""What heads do, on heads whose habits are known."""

import math

import pytest
import torch

from regard.look import statistics as subject
from regard.look.record import Map, Record
from regard.look.statistics import divergences, statistics
from regard.tasks.base import Side

ITEMS = ("<s>", "▁a", "▁b", "▁,", "</s>")


def record() -> Record:
    size = len(ITEMS)
    previous = torch.zeros(size, size)
    previous[0, 0] = 1
    previous[torch.arange(1, size), torch.arange(size - 1)] = 1
    even = torch.full((size, size), 1 / size)
    comma = torch.zeros(size, size)
    comma[:, 3] = 1
    weights = torch.stack([previous, even, comma])
    return Record("", {"source": Side(ITEMS)}, (Map("self", "self", "source", "source", weights, (0, 1, 2), layer=0),))


def test_known_habits_are_found():
    found = statistics([record(), record()])
    assert found["sentences"] == 2
    before, even, comma = found["heads"]
    assert before["previous"] == pytest.approx(4 / 5)
    assert before["entropy"] == pytest.approx(0.0, abs=1e-6)
    assert even["entropy"] == pytest.approx(math.log(5), abs=1e-5)
    assert even["special"] == pytest.approx(2 / 5)
    assert comma["punctuation"] == pytest.approx(1.0)
    assert comma["last"] == pytest.approx(0.0)
    assert comma["distance"] == pytest.approx((3 + 2 + 1 + 0 + 1) / 5)


def test_similarity_is_a_distance_between_heads():
    similarity = torch.tensor(statistics([record()])["similarity"])
    assert torch.equal(similarity, similarity.T)
    assert similarity.diagonal().abs().max() < 1e-3
    assert similarity[0, 2] == pytest.approx(math.sqrt(math.log(2)), abs=0.2)


def divergence(p: torch.Tensor, q: torch.Tensor) -> float:
    """√ of the Jensen–Shannon divergence of two heads (Q, K), row by row and in double precision."""
    found = []
    for one, other in zip(p.double(), q.double(), strict=True):
        one, other = one / one.sum(), other / other.sum()
        middle = (one + other) / 2
        js = sum(
            0.5 * float(x * (x / m).log()) for r in (one, other) for x, m in zip(r, middle, strict=True) if float(x) > 0
        )
        found.append(math.sqrt(max(js, 0.0)))
    return sum(found) / len(found)


@pytest.mark.parametrize("together", [1, 1 << 16])
def test_divergences_of_all_heads_at_once_are_those_of_each_two(monkeypatch: pytest.MonkeyPatch, together: int):
    monkeypatch.setattr(subject, "TOGETHER", together)
    generator = torch.Generator().manual_seed(3)

    def made(name: str, query: str, key: str, shape: tuple[int, int, int]) -> Map:
        weights = (3 * torch.randn(shape, generator=generator)).softmax(-1)
        weights[..., -1] = 0  # a key that nobody sees
        return Map(name, "self" if query == key else "cross", query, key, weights, tuple(range(shape[0])))

    maps = (
        made("a", "source", "source", (3, 7, 7)),
        made("b", "target", "source", (2, 5, 7)),
        made("c", "source", "source", (2, 7, 7)),
    )
    heads = [(each, weights) for each in maps for weights in each.weights]
    found = divergences(maps)
    assert found.shape == (7, 7)
    for one, (mine, p) in enumerate(heads):
        for other, (yours, q) in enumerate(heads):
            if (mine.query, mine.key) == (yours.query, yours.key):
                assert found[one, other].item() == pytest.approx(divergence(p, q), abs=1e-6)
            else:
                assert math.isnan(found[one, other])


def test_torch_has_as_many_threads_after_as_before():
    before = torch.get_num_threads()
    seen = []

    def watching():
        for _ in range(2):
            seen.append(torch.get_num_threads())
            yield record()

    statistics(watching())
    assert [*seen, torch.get_num_threads()] == [before] * 3
