"""The series of a record on one axis of time: the past, a forecast, and what else has values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from regard.tasks.base import Side

if TYPE_CHECKING:
    from regard.look.record import Map, Record

NAMES = {"source": "past", "target": "forecast"}


@dataclass(frozen=True)
class Timeline:
    """Steps in order, and the step of each item of each series; equal names are the same step."""

    steps: tuple[str, ...]
    places: Mapping[str, tuple[int, ...]]
    series: Mapping[str, Side]

    @classmethod
    def of(cls, sides: Mapping[str, Side]) -> Timeline:
        series = {name: sides[name] for name in sorted(sides, key=_rank) if is_series(sides[name])}
        steps: list[str] = []
        known: dict[str, int] = {}
        places = {}
        for name, side in series.items():
            once = len(set(side.items)) == len(side.items)
            own = []
            for item in side.items:
                if not (once and item in known):
                    known[item] = len(steps)
                    steps.append(item)
                own.append(known[item])
            places[name] = tuple(own)
        return cls(tuple(steps), places, series)

    def is_ahead(self, name: str) -> bool:
        """Whether a series is a forecast."""
        return name == "target" or bool(self.series[name].bands)

    def joint(self, name: str) -> tuple[int, float] | None:
        """The last number of the past and its step, from which the line of a forecast begins."""
        past = self.series.get("source")
        if past is None or past.values is None or not self.is_ahead(name) or not self.places[name]:
            return None
        before = [
            (place, value)
            for place, value in zip(self.places["source"], past.values, strict=True)
            if place < self.places[name][0] and math.isfinite(value)
        ]
        return before[-1] if before else None


def is_series(side: Side | None) -> bool:
    """Whether the items of a side are steps with numbers."""
    return side is not None and side.kind == "steps" and side.values is not None


def shown_row(record: Record, chosen: Map) -> tuple[str, Tensor]:
    """The step whose weights are shown if only one is: the first of a forecast, or the last of the past."""
    row = chosen.weights.shape[1] - 1 if chosen.query == chosen.key else 0
    return record.sides[chosen.query].items[row], chosen.weights[:, row].mean(0)


def _rank(name: str) -> int:
    return {"source": 0, "target": 2}.get(name, 1)
