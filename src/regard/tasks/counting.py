"""How many of a task's inputs are done, for whoever shows it.

A task that goes through many inputs takes a `counter` and tells it how many more are done. Inside `counted_by`, the
counts reach the one who shows them; outside, they go nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

Told = Callable[[int, int], None]  # (how many are done, how many there are)
_told: ContextVar[Told | None] = ContextVar("told", default=None)


@contextmanager
def counted_by(told: Told | None) -> Iterator[None]:
    """Counts that begin while the `with` lasts are told to `told`; with None, to nobody."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


def counter(total: int) -> Callable[[int], None]:
    """A function that is told how many more of `total` inputs are done, from any thread."""
    told, done, lock = _told.get(), 0, Lock()

    def more(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            if told is not None:
                told(done, total)

    more(0)
    return more
