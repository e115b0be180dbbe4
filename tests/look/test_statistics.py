"""What heads do, on heads whose habits are known."""

import math

import pytest
import torch

from regard.look.record import Map, Record, Side
from regard.look.statistics import statistics

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
