"""Preparing the next things while the present one is used."""

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item], *, depth: int) -> Iterator[Item]:
    """The same items in the same order, up to `depth` of them made beforehand by a thread.

    An exception of the maker reaches the user at its place in the order. Leaving early ends the thread.
    """
    ready: queue.Queue[list[Item] | BaseException] = queue.Queue(maxsize=depth)  # an item, its end [], or an error
    stopped = threading.Event()

    def put(thing: list[Item] | BaseException) -> bool:
        while not stopped.is_set():
            with suppress(queue.Full):
                ready.put(thing, timeout=0.1)
                return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put([item]):
                    return
            put([])
        except BaseException as error:
            put(error)

    maker = threading.Thread(target=make, name="prefetch", daemon=True)
    maker.start()
    try:
        while thing := ready.get():
            if isinstance(thing, BaseException):
                raise thing
            yield thing[0]
    finally:
        stopped.set()
        maker.join()
