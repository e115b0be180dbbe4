"""What all streams share: which process gets which batch, moving to a device, and preparing in advance."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor

from regard.data.streams import Share, TensorBatch, ahead
from regard.errors import RegardError


@given(sizes=some.lists(some.integers(1, 13), min_size=1, max_size=29), world=some.integers(1, 7))
@settings(max_examples=50)
def test_shares_are_equal_in_number_and_hold_every_row_once(sizes: list[int], world: int) -> None:
    total = sum(sizes)
    batches = numpy.split(numpy.random.default_rng(3).permutation(total), numpy.cumsum(sizes)[:-1])
    shares = [Share(rank, world) for rank in range(world)]
    wanted = -(-len(sizes) // world)
    if wanted * world > total:
        with pytest.raises(RegardError, match=f"{total} examples in {len(sizes)} batches cannot be shared by {world}"):
            shares[0].of(batches)
        return
    shared = [share.of(batches) for share in shares]
    assert [len(each) for each in shared] == [wanted] * world
    assert sorted(row for each in shared for rows in each for row in rows.tolist()) == list(range(total))
    assert all(len(rows) for each in shared for rows in each)
    untouched = {tuple(rows.tolist()) for rows in batches} & {tuple(rows.tolist()) for each in shared for rows in each}
    assert len(untouched) >= len(sizes) - (wanted * world - len(sizes))  # no more are halved than need be


def test_one_process_gets_all_batches_as_they_are() -> None:
    batches = [numpy.array([3, 1]), numpy.array([0]), numpy.array([2, 4, 5])]
    assert all(given is kept for given, kept in zip(batches, Share().of(batches), strict=True))


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
