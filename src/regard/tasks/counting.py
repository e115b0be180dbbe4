"""The progress of a task: how many of its inputs are done.

A task that processes many inputs reports to a `counter` how many more are done. Inside `counted_by`, a callback
receives the counts, for example to move a bar; outside, they are ignored.
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
    """`told` receives the counts of counters that are made while the `with` lasts; with None, they are ignored."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


def counter(total: int) -> Callable[[int], None]:
    """A function to call, from any thread, with how many more of `total` inputs are done."""
    told, done, lock = _told.get(), 0, Lock()

    def more(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            if told is not None:
                told(done, total)

    more(0)
    return more
