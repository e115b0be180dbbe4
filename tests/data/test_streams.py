"""What all streams share: which process gets which batch, moving to a device, and preparing in advance."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from regard.data.streams import Part, Share, TensorBatch, ahead

sizes_of_batches = some.lists(some.integers(1, 13), min_size=1, max_size=29)


def batches_of(sizes: list[int]) -> list[numpy.ndarray]:
    return numpy.split(numpy.random.default_rng(3).permutation(sum(sizes)), numpy.cumsum(sizes)[:-1])


def rows_of(groups: list[list[Part]]) -> list[int]:
    return sorted(row for each in groups for part in each for row in part.rows.tolist() if not part.idle)


@given(sizes=sizes_of_batches, world=some.integers(1, 7))
def test_shares_are_equal_in_number_and_hold_every_row_once(sizes: list[int], world: int) -> None:
    batches, shares = batches_of(sizes), [Share(rank, world) for rank in range(world)]
    shared = [list(share.groups(batches)) for share in shares]
    assert len({len(each) for each in shared}) == 1
    assert rows_of(shared) == list(range(sum(sizes)))
    assert all(len(part.rows) for each in shared for part in each)
    places = [[part.position for part in each] for each in shared]
    assert all(each == places[0] for each in places)  # all processes are at the same place
    assert places[0][-1] == len(sizes) - 1
    last = {tuple(rows.tolist()) for each in shared for _, rows, _ in each[:-1]}
    assert last <= {tuple(rows.tolist()) for rows in batches}  # only the last batch of each may be divided


@given(sizes=sizes_of_batches, first=some.integers(1, 5), then=some.integers(1, 5), data=some.data())
def test_another_number_of_processes_goes_on_with_what_is_left(
    sizes: list[int], first: int, then: int, data: some.DataObject
) -> None:
    batches = batches_of(sizes)
    before = [list(Share(rank, first).groups(batches)) for rank in range(first)]
    steps = data.draw(some.integers(0, len(before[0]) - 1))
    done = [each[:steps] for each in before]
    position = done[0][-1].position + 1 if steps else 0
    after = [list(Share(rank, then).groups(batches, position)) for rank in range(then)]
    assert sorted(rows_of(done) + rows_of(after)) == list(range(sum(sizes)))


def test_one_process_gets_all_batches_as_they_are() -> None:
    batches = [numpy.array([3, 1]), numpy.array([0]), numpy.array([2, 4, 5])]
    for number, part in enumerate(Share().groups(batches)):
        assert part == (number, batches[number], False)
        assert part.rows is batches[number]


@pytest.mark.parametrize(("rank", "world"), [(3, 3), (-1, 2), (0, 0)])
def test_a_rank_that_no_process_has_is_told(rank: int, world: int) -> None:
    with pytest.raises(ValueError, match=f"rank={rank} is not one of the {world} processes"):
        Share(rank, world)


def test_all_tensors_of_a_batch_move_and_nothing_else_changes() -> None:
    @dataclass(frozen=True)
    class Both(TensorBatch):
        first: Tensor
        rows: tuple[int, ...]
        second: Tensor

    batch = Both(torch.ones(2), (5, 7), torch.zeros(3), epoch=11, position=13)
    moved = batch.to("meta")
    assert {moved.first.device.type, moved.second.device.type} == {"meta"}
    assert (moved.rows, moved.epoch, moved.position) == ((5, 7), 11, 13)
    assert batch.first.device.type == "cpu"


def test_the_same_items_come_in_the_same_order() -> None:
    assert list(ahead(iter(range(101)), depth=3)) == list(range(101))
    assert list(ahead(iter([]), depth=3)) == []


def test_nothing_and_false_are_items_too() -> None:
    assert list(ahead(iter([None, False, 0, []]), depth=2)) == [None, False, 0, []]


def test_an_exception_comes_in_its_place() -> None:
    def broken() -> Iterator[int]:
        yield from range(5)
        raise OSError("the disk is gone")

    items = ahead(broken(), depth=2)
    assert [next(items) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)


def test_no_more_than_depth_are_made_beforehand_and_leaving_ends_the_thread() -> None:
    made = []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            made.append(number)
            yield number
            number += 1

    items = ahead(endless(), depth=3)
    assert next(items) == 0
    for _ in range(50):
        time.sleep(0.01)
    assert len(made) <= 5  # one in use, three ready, one waiting for room
    items.close()  # type: ignore[attr-defined]
    assert "prefetch" not in {thread.name for thread in threading.enumerate()}
