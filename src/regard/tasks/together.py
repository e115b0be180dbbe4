"""Scores that several processes find together: each answers its share, and all get the answers of all.

Inside `spread_over`, all processes must call the same functions of this file in the same order. Outside, and in a
process that is alone, one process answers everything. Answers travel as JSON: they are texts, numbers and lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Protocol, Self, TypeVar

from regard.data.streams import WHOLE, Share

Item = TypeVar("Item")
Said = TypeVar("Said")


class Sliced(Protocol):
    """A list, or an array."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Self: ...


Many = TypeVar("Many", bound=Sliced)


class Company(Protocol):
    """The processes that answer together."""

    @property
    def share(self) -> Share:
        """Which of them this one is."""
        ...

    def each(self, make: Callable[[], Said]) -> list[Said]:
        """What every process makes, in their order. If one of them cannot, all raise its error."""
        ...


_company: ContextVar[Company | None] = ContextVar("company", default=None)


@contextmanager
def spread_over(company: Company) -> Iterator[None]:
    """The functions of this file spread their work over these processes while the `with` lasts."""
    token = _company.set(company)
    try:
        yield
    finally:
        _company.reset(token)


def of_each(answer: Callable[[Share], Said]) -> list[Said]:
    """What each process says of its share, in their order."""
    company = _company.get()
    if company is None or company.share.world == 1:
        return [answer(WHOLE)]
    return company.each(lambda: answer(company.share))


def together(items: Many, answer: Callable[[Many], Sequence[Said]]) -> list[Said]:
    """answer(items), in order: each process answers the items from one place to another."""

    def part(share: Share) -> list[Said]:
        begin, end = (len(items) * number // share.world for number in (share.rank, share.rank + 1))
        return list(answer(items[begin:end])) if end > begin else []

    return [said for some in of_each(part) for said in some]


def spread(items: Iterable[Item], answer: Callable[[Item], Iterable[Said]]) -> list[Said]:
    """What is said of all items, in any order: each process takes some of them."""

    def part(share: Share) -> list[Said]:
        return [said for item in islice(items, share.rank, None, share.world) for said in answer(item)]

    return [said for some in of_each(part) for said in some]
