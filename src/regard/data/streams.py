"""Batches in a fixed order: the base of the streams of all media.

An epoch is one pass over all examples. A stream belongs to one of `world` processes that learn together: each of them
gets the same number of batches in an epoch, and exactly one of them learns from each example.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from numpy import integer, ndarray
from numpy.typing import NDArray

from regard.data.planning import Rows, balanced

if TYPE_CHECKING:
    import torch

AHEAD = 8  # batches prepared in advance

Item = TypeVar("Item")


class Batch(Protocol):
    """Some examples, and their place in training."""

    @property
    def targets(self) -> int:
        """How many tokens, labels or other targets are to be predicted."""

    @property
    def epoch(self) -> int: ...

    @property
    def position(self) -> int:
        """The number in its epoch of this batch, or of the last one that a process has at the same time; training
        resumes after it at `position + 1`."""

    @property
    def idle(self) -> bool:
        """Whether another process learns from these examples: this one only keeps it company."""

    def to(self, device: torch.device | str) -> Self:
        """The batch with its tensors on that device."""

    def divided(self, most: int) -> Sequence[Self]:
        """The batch in `most` parts of about as many rows each, or in one part for each row if these are fewer. The
        losses of the parts sum to that of the batch. A batch whose rows belong together is one part."""


@dataclass(frozen=True)
class TensorBatch:
    """The common part of the batches of all media: their place in training, `to` and `divided`.

    Batches whose rows do not depend on each other have their number as `size`, and give some of them as a `part`.
    """

    epoch: int = field(default=0, kw_only=True)
    position: int = field(default=0, kw_only=True)
    idle: bool = field(default=False, kw_only=True)

    @property
    def size(self) -> int:
        """How many parts the batch can be divided into."""
        return 1

    def part(self, rows: slice) -> Self:
        """Some rows of the batch: of every tensor, array and tuple those entries."""
        from torch import Tensor

        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in values.items():
            if isinstance(value, Tensor | ndarray | tuple):
                values[name] = value[rows]
        return replace(self, **values)

    def divided(self, most: int) -> list[Self]:
        """The batch in `most` parts of about as many rows each, or in one for each row if these are fewer."""
        count = min(most, self.size)
        if count <= 1:
            return [self]
        borders = [self.size * number // count for number in range(count + 1)]
        return [self.part(slice(begin, end)) for begin, end in pairwise(borders)]

    def to(self, device: torch.device | str) -> Self:
        """The batch with its tensors on that device."""
        from torch import Tensor

        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = value.to(device, non_blocking=True)
        return replace(self, **values)


@dataclass(frozen=True)
class Share:
    """Which part of every epoch this process learns from: that of process `rank` among `world` processes."""

    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank={self.rank} is not one of the {self.world} processes; give 0 to {self.world - 1}")

    def groups(
        self, batches: Sequence[Rows], position: int = 0, *, lengths: NDArray[integer] | None = None
    ) -> Iterator[Part]:
        """The batches of this process among those from `position` on.

        Positions count the batches of an epoch in one order for all numbers of processes: a run that is resumed by
        other processes learns from exactly those batches that are left. If there are fewer batches than processes at
        the end, these are divided; a process that no row is left for is idle. With the `lengths` of all rows on each
        side, processes exchange rows between the batches that they learn from at the same time, so that these take
        equally long.
        """
        left = list(batches[position:])
        whole = len(left) // self.world * self.world
        for first in range(0, whole, self.world):
            group = left[first : first + self.world]
            if lengths is not None and self.world > 1:
                group = balanced(group, lengths)
            yield Part(position + first + self.world - 1, group[self.rank])
        if end := left[whole:]:
            parts = _divided(end, self.world)
            mine = parts[self.rank] if self.rank < len(parts) else parts[0]
            yield Part(position + len(left) - 1, mine, idle=self.rank >= len(parts))


class Part(NamedTuple):
    """A batch of one process: the position of the last batch that any process has at the same time, its rows, and
    whether these belong to another process."""

    position: int
    rows: Rows
    idle: bool = False


def _divided(batches: list[Rows], most: int) -> list[Rows]:
    """The rows of these batches in `most` batches, or in one for each row if these are fewer: largest are halved."""
    parts = list(batches)
    while len(parts) < most:
        number = max(range(len(parts)), key=lambda number: len(parts[number]))
        if len(largest := parts[number]) < 2:
            break
        parts[number : number + 1] = [largest[::2], largest[1::2]]
    return parts


WHOLE = Share()  # for a single process
BatchT = TypeVar("BatchT", bound=Batch, covariant=True)


class Stream(ABC, Generic[BatchT]):
    """Batches in an order that depends on nothing but a seed, the epoch and the position in it."""

    unit: ClassVar[str] = "tokens"  # what `Batch.targets` counts
    chained: ClassVar[bool] = False  # whether a batch continues the one before, so that one process must read them all

    @abstractmethod
    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[BatchT]:
        """The batches of one epoch for this process, from the one at `position` of all processes on."""

    @abstractmethod
    def in_order(self) -> Iterator[BatchT]:
        """All examples once, whatever the share of this process, for validation."""

    @property
    @abstractmethod
    def checksum(self) -> str:
        """Changes when the examples change."""

    @abstractmethod
    def describe(self) -> list[str]:
        """The content of the stream, as lines for people."""

    def stream(self, *, epoch: int = 0, position: int = 0) -> Iterator[BatchT]:
        """Endless batches from a place in training on; a thread prepares them in advance."""
        epochs = (self.epoch(number, position=position if number == epoch else 0) for number in count(epoch))
        return ahead((batch for batches in epochs for batch in batches), depth=AHEAD)


@runtime_checkable
class Laned(Protocol):
    """A stream whose rows go on from batch to batch: row i of all processes reads lane i of the data."""

    def lanes(self, epoch: int) -> slice:
        """Those that this process reads in an epoch."""
        ...

    def keep_lanes(self, epoch: int, count: int) -> None:
        """Divide the data in an epoch into this number of lanes, with which other processes have begun it."""
        ...


def ahead(items: Iterator[Item], *, depth: int) -> Iterator[Item]:
    """The same items in the same order; a thread makes up to `depth` of them in advance.

    An exception of the thread is raised at its place in the order. Closing the iterator ends the thread.
    """
    ready: queue.Queue[list[Item] | BaseException] = queue.Queue(maxsize=depth)  # [item], the end [], or an error
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
