"""A cache gives back what was put in, however it was put in."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.attention.cache import Cache, Projected
from regard.errors import RegardError

BATCH, HEADS, WIDTH = 3, 2, 5


def projected(length: int, batch: int = BATCH) -> Projected:
    return Projected(*(torch.randn(batch, HEADS, length, WIDTH) for _ in range(2)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 20))
def test_whatever_the_chunks_and_the_capacity_all_of_it_comes_back(chunks: list[int], capacity: int) -> None:
    everything, cache = projected(sum(chunks)), Cache(capacity)
    end = 0
    for chunk in chunks:
        start, end = end, end + chunk
        seen = cache.append(Projected(*(x[:, :, start:end] for x in everything)))
        assert cache.length == end
        assert_close(seen, Projected(*(x[:, :, :end] for x in everything)))


def test_room_is_made_by_doubling_and_not_before_it_is_needed() -> None:
    cache = Cache(4)
    capacities = []
    for _ in range(17):
        cache.append(projected(1))
        capacities.append(cache.capacity)
    assert capacities == [4] * 4 + [8] * 4 + [16] * 8 + [32]


def test_nothing_is_copied_while_there_is_room() -> None:
    cache = Cache(8)
    before, after = cache.append(projected(3)), cache.append(projected(2))
    assert before.keys.untyped_storage().data_ptr() == after.keys.untyped_storage().data_ptr()
    assert_close(before.keys, after.keys[:, :, :3])


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 1, 0], [2], []], ids=["permuted", "repeated", "dropped", "none"])
def test_reordered_rows_go_on_by_themselves(rows: list[int]) -> None:
    cache, index = Cache(2), torch.tensor(rows, dtype=torch.int64)
    first, second = projected(3), projected(2, batch=len(rows))
    cache.append(first)
    moved = cache.reorder(index)
    seen = moved.append(second)
    assert_close(seen, Projected(*(torch.cat([a[index], b], 2) for a, b in zip(first, second, strict=True))))
    assert cache.length == 3
    assert_close(cache.append(projected(0)), first)


def test_gradients_flow_back_through_every_position_and_reordered_rows() -> None:
    everything, rows = projected(6), torch.tensor([2, 0, 0])
    for x in everything:
        x.requires_grad_()

    def loss(seen: Projected) -> torch.Tensor:
        return (seen.keys * seen.keys * seen.values).sum()

    cache, losses = Cache(2), []
    for at in range(3):
        losses.append(loss(cache.append(Projected(*(x[:, :, at : at + 1] for x in everything)))))
    moved = cache.reorder(rows)
    for at in range(3, 6):
        losses.append(loss(moved.append(Projected(*(x[rows, :, at : at + 1] for x in everything)))))
    with torch.no_grad():
        assert moved.append(projected(1)).keys.shape[2] == 7
    found = torch.autograd.grad(sum(losses), everything)
    whole = [loss(Projected(*(x[:, :, :end] for x in everything))) for end in range(1, 4)]
    whole += [loss(Projected(*(x[rows, :, :end] for x in everything))) for end in range(4, 7)]
    assert_close(found, torch.autograd.grad(sum(whole), everything))


def test_an_empty_cache_can_be_reordered() -> None:
    moved = Cache(2).reorder(torch.tensor([0, 0]))
    assert moved.append(projected(1, batch=2)).keys.shape == (2, HEADS, 1, WIDTH)


def test_a_projected_memory_is_reordered_by_rows() -> None:
    memory = projected(4)
    assert_close(memory.reorder(torch.tensor([1, 1])), Projected(memory.keys[[1, 1]], memory.values[[1, 1]]))


def test_a_batch_that_changes_is_refused() -> None:
    cache = Cache(4)
    cache.append(projected(1))
    with pytest.raises(RegardError, match="holds batch 3 and heads 2"):
        cache.append(projected(1, batch=1))
    assert cache.length == 1


def test_a_cache_needs_room() -> None:
    with pytest.raises(RegardError, match="capacity=0"):
        Cache(0)
