"""What a work found, as bench/results/WORK.json keeps it: every repeat's figure, with machine, date and command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from bench.figures import Spread, ratios, spread

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """A system and its figures, one a repeat."""

    name: str
    figures: Sequence[float]
    ours: bool = False
    judged: bool = True  # counts when the best peer is sought

    @property
    def spread(self) -> Spread:
        return spread(self.figures)


@dataclass(frozen=True)
class Table:
    """Systems that did the same thing. `flops` is what one unit costs, where that can be counted."""

    title: str
    unit: str
    rows: Sequence[Row]
    higher: bool = True  # whether more is better
    flops: float | None = None
    notes: Sequence[str] = ()

    @property
    def ours(self) -> list[Row]:
        return [row for row in self.rows if row.ours]

    def best_peer(self) -> Row | None:
        """The peer that serves best, of those that are judged."""
        theirs = [row for row in self.rows if row.judged and not row.ours]
        choose = max if self.higher else min
        return choose(theirs, key=lambda row: row.spread.median) if theirs else None

    def ratio(self, ours: Row, theirs: Row) -> Spread:
        """Ours over theirs, repeat by repeat."""
        return spread(ratios(ours.figures, theirs.figures))

    def share(self, row: Row, limit: float) -> float | None:
        """Which part of the machine's matrix-multiply rate `limit` (GFLOP/s) a row's median makes use of."""
        if self.flops is None or not self.higher:
            return None
        return row.spread.median * self.flops / (1e9 * limit)


@dataclass(frozen=True)
class Result:
    """All of one work. `limits` are GFLOP/s of large matrix products by precision, one figure a repeat."""

    work: str
    about: str
    command: str
    date: str
    machine: Mapping[str, Any]
    tables: Sequence[Table]
    limits: Mapping[str, Sequence[float]] = field(default_factory=dict)
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        found = json.loads(text)
        tables = [Table(**{**table, "rows": [Row(**row) for row in table["rows"]]}) for table in found["tables"]]
        return cls(**{**found, "tables": tables})

    def save(self, folder: Path = FOLDER) -> Path:
        """Written beside and renamed, so that a file is whole or not there."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.work}.json"
        beside = path.with_suffix(".tmp")
        beside.write_text(self.to_json(), encoding="utf-8")
        beside.replace(path)
        return path


def load_all(folder: Path = FOLDER) -> list[Result]:
    return [Result.from_json(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
