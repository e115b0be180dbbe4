"""What layers add to the loss of any task while they learn: the cost of pondering, the balance of experts.

A layer calls `penalise(value)`; the values are collected where the loss is computed, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

_collected: ContextVar[list[Tensor] | None] = ContextVar("penalties", default=None)


@contextmanager
def penalties() -> Iterator[list[Tensor]]:
    """Collect what layers add to the loss for each target, in the order in which they are computed."""
    found: list[Tensor] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def penalise(value: Tensor) -> None:
    """Add a number to the loss of each target, if the loss is being computed to learn from."""
    found = _collected.get()
    if found is not None:
        found.append(value)


def penalised() -> bool:
    """Whether somebody collects penalties, so that they are worth computing."""
    return _collected.get() is not None
