"""Preparing ahead changes nothing but the time."""

import threading
import time
from collections.abc import Iterator

import pytest

from regard.data.prefetch import ahead


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
