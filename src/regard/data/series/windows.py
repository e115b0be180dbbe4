"""Batches of windows over series: numbers that are known, and those after them.

A window has `context` known numbers and then `ahead` to be predicted. A series that is shorter than that is continued
to the left by repeating its first season. Numbers are counted from the last known one before they are rounded to single
precision, so that large numbers with small changes keep these.

B batch  T steps of a window  F features of the calendar
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy
import torch
from torch import Tensor

from regard.data.series.dates import Steps
from regard.data.series.series import Numbers, Series
from regard.data.streams import WHOLE, Share, Stream, TensorBatch


@dataclass(frozen=True)
class WindowBatch(TensorBatch):
    """A batch of windows.

    values    (B, T)        numbers, from the last known one on; their logarithms if these are learned
    calendar  (B, T, F)     of the same steps
    known                   how many numbers of each window are known
    levels                  the last known numbers, which are to be added again (B,)
    """

    values: Tensor
    calendar: Tensor
    known: int
    levels: Numbers

    @property
    def targets(self) -> int:
        return int((~self.values[:, self.known :].isnan()).sum())

    @property
    def size(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Windows:
    """How windows are cut out of series."""

    context: int
    season: int
    log: bool = False

    def cut(self, series: Sequence[Series], origins: Sequence[int] | Steps, *, ahead: int) -> WindowBatch:
        """The windows whose first step that is not known is `origin`. `ahead` steps follow; those after the end of a
        series are NaN, and have a calendar too."""
        values = numpy.stack([self._numbers(*each, ahead) for each in zip(series, origins, strict=True)])
        positions = numpy.stack(
            [each.positions(at - self.context, at + ahead) for each, at in zip(series, origins, strict=True)]
        )
        levels = values[:, self.context - 1]
        return WindowBatch(
            torch.from_numpy((values - levels[:, None]).astype(numpy.float32)),
            torch.from_numpy(series[0].frequency.calendar(positions)),
            self.context,
            levels,
        )

    def inward(self, values: Numbers) -> Numbers:
        """Numbers as they are learned: logarithms, or themselves."""
        return numpy.log(values) if self.log else values

    def outward(self, values: Numbers) -> Numbers:
        """Learned numbers as they stand in series."""
        return numpy.exp(values) if self.log else values

    def _numbers(self, series: Series, origin: int, ahead: int) -> Numbers:
        at = numpy.arange(origin - self.context, origin + ahead)
        at = numpy.where(at < 0, at % min(self.season, origin), at)
        found = numpy.where(at < len(series), series.values[numpy.minimum(at, len(series) - 1)], numpy.nan)
        return self.inward(found)


class WindowStream(Stream[WindowBatch]):
    """Batches of the windows of series, with up to `ahead` steps to predict.

    Every step that has `context` numbers before it is the origin of a window, and of a series that is judged every step
    from there on. A series that is too short for that has its last `ahead` steps as origins, where a season and one
    step more stand before them.
    """

    unit = "steps"

    def __init__(
        self,
        series: Sequence[Series],
        windows: Windows,
        *,
        ahead: int,
        batch_size: int,
        seed: int,
        share: Share = WHOLE,
    ) -> None:
        self.series, self.windows, self.ahead = series, windows, ahead
        self.batch_size, self.seed, self.share = batch_size, seed, share
        self.places = numpy.array(
            [(number, at) for number, each in enumerate(series) for at in self._origins(each)], numpy.int64
        ).reshape(-1, 2)

    def _origins(self, series: Series) -> range:
        first = min(self.windows.context, len(series) - self.ahead) if series.judged is None else series.judged
        return range(max(first, self.windows.season + 1), len(series))

    @property
    def checksum(self) -> str:
        digest = sha256(f"{self.windows} {self.ahead}".encode())
        for each in self.series:
            digest.update(f"{each.name} {each.start} {each.frequency} {each.judged}".encode())
            digest.update(each.values.tobytes())
        return digest.hexdigest()

    def describe(self) -> list[str]:
        steps = sum(map(len, self.series))
        return [f"{len(self.places):,} windows of {len(self.series):,} series with {steps:,} steps"]

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[WindowBatch]:
        order = numpy.random.default_rng([self.seed, epoch]).permutation(len(self.places))
        batches = numpy.array_split(order, max(1, -(-len(order) // self.batch_size)))
        for place, rows, idle in self.share.groups(batches, position):
            yield replace(self._batch(rows), epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[WindowBatch]:
        for begin in range(0, len(self.places), self.batch_size):
            yield self._batch(numpy.arange(begin, min(begin + self.batch_size, len(self.places))))

    def _batch(self, rows: Steps) -> WindowBatch:
        numbers, origins = self.places[rows].T
        return self.windows.cut([self.series[number] for number in numbers], origins, ahead=self.ahead)
