"""What repeats of a measurement say: a median and how far they lie apart, and ratios between two systems."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The middle of several figures, the lowest and the highest."""

    median: float
    low: float
    high: float

    def text(self, form: str) -> str:
        """For a table: median [low–high]."""
        if self.low == self.high:
            return format(self.median, form)
        return f"{self.median:{form}} [{self.low:{form}}–{self.high:{form}}]"


def spread(figures: Sequence[float]) -> Spread:
    if not figures:
        raise ValueError("there is not one figure to take a median of")
    return Spread(statistics.median(figures), min(figures), max(figures))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """ours / theirs, repeat by repeat: the two of one repeat were measured one after the other on the same machine."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def sensible(value: float) -> str:
    """The format that shows three digits of a figure."""
    size = abs(value)
    return ",.0f" if size >= 100 else ".1f" if size >= 10 else ".2f" if size >= 0.1 else ".2g"
