"""What a comparison found: a table for people, JSON for programs, and a picture."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard import durable
from regard.tasks.base import Score
from regard.tasks.significance import comparable, compare
from regard.training import curves

Row = list[str]
PAIRED = "difference: from the first run, and where 95 of 100 drawn test sets have it; p: how likely it is by chance"
UNPAIRED = "there are no intervals, because the runs are not judged on the same examples"
WITHOUT = (
    "a score without an interval is not made of what each example adds to it, or not of as many parts in both runs"
)


@dataclass(frozen=True)
class Ran:
    """One run of a comparison."""

    name: str
    path: Path
    values: Mapping[str, str]
    report: Mapping[str, Any]  # report.json
    peak_memory: int  # bytes
    judged_on: str
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class Compared:
    """The runs of a comparison. It prints as a table, and a notebook displays it."""

    path: Path
    recipe: str
    runs: Sequence[Ran]
    paired: bool  # whether all are judged on the same examples

    @cached_property
    def differences(self) -> list[dict[str, dict[str, float]]]:
        """For each run, each score: value and, where it has an interval, the difference from the first run."""
        first, found = self.runs[0], []
        for run in self.runs:
            rows: dict[str, dict[str, float]] = {name: {"value": score.value} for name, score in run.scores.items()}
            if self.paired and run is not first:
                with_parts = compare(first.scores, run.scores)
                for name, row in with_parts.items():
                    rows[name] |= {key: row[key] for key in ("difference", "low", "high", "p") if key in row}
            found.append(rows)
        return found

    @property
    def main(self) -> str:
        """The score that stands first."""
        return next(iter(self.runs[0].scores))

    def to_json(self) -> dict[str, Any]:
        """All numbers."""
        costs = ("parameters", "flops", "tokens_per_second", "seconds", "steps", "tokens", "seed", "device", "threads")
        return {
            "recipe": self.recipe,
            "judged_on": self.runs[0].judged_on,
            "paired": self.paired,
            "runs": [
                {
                    "name": run.name,
                    "path": str(run.path),
                    "values": dict(run.values),
                    "scores": {name: _finite(row) for name, row in rows.items()},
                    **{name: run.report.get(name) for name in costs},
                    "peak_memory": run.peak_memory,
                    "ended": run.report.get("ended"),
                }
                for run, rows in zip(self.runs, self.differences, strict=True)
            ],
        }

    def write(self) -> None:
        """compare.json and compare.png."""
        content = json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        durable.write_file(self.path / "compare.json", content.encode() + b"\n")
        durable.write_file(self.path / "compare.png", self.picture())

    def picture(self) -> bytes:
        """The learning curves and the first score, as PNG."""
        scores = [rows[self.main] for rows in self.differences]
        named = [(run.name, run.report.get("history", []), run.report.get("validations", [])) for run in self.runs]
        return curves.draw(named, scores, score=self.main, title=self.recipe)

    def __getitem__(self, place: int) -> Ran:
        return self.runs[place]

    def __len__(self) -> int:
        return len(self.runs)

    def tables(self) -> list[list[Row]]:
        """The first score and what each run cost; then the other scores."""
        costs = [["parameters", "FLOPs", "tokens/s", "memory", "time", "steps"]]
        costs += [_costs(run) for run in self.runs]
        shown = [[left + right for left, right in zip(self._scored(self.main), costs, strict=True)]]
        return shown + [self._scored(name) for name in self.runs[0].scores if name != self.main]

    def _scored(self, name: str) -> list[Row]:
        """A header, and for each run: its name, a score, the difference and p."""
        lines = [["", name, "difference (95 %)", "p"]]
        for run, rows in zip(self.runs, self.differences, strict=True):
            row = rows.get(name)
            lines.append([run.name, "–" if row is None else f"{row['value']:.2f}", *_difference(row or {})])
        return lines

    def notes(self) -> list[str]:
        """What one must know to read the tables."""
        if not self.paired:
            return [f"scores on {self.runs[0].judged_on}", UNPAIRED]
        pairs = [(score.parts, run.scores[name].parts) for run in self.runs[1:] for name, score in self._common(run)]
        missing = not all(comparable(*both) for both in pairs)
        return [f"scores on {self.runs[0].judged_on}", PAIRED, *([WITHOUT] if missing else [])]

    def _common(self, run: Ran) -> list[tuple[str, Score]]:
        return [(name, score) for name, score in self.runs[0].scores.items() if name in run.scores]

    def __str__(self) -> str:
        return "\n\n".join(["\n".join(_aligned(rows)) for rows in self.tables()] + ["\n".join(self.notes())])

    def __repr__(self) -> str:
        return f"<comparison of {len(self.runs)} runs in {self.path}>"

    def _repr_html_(self) -> str:
        tables = []
        for header, *rows in self.tables():
            cells = ["".join(f"<th>{html.escape(cell)}</th>" for cell in header)]
            cells += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
            tables.append(f"<table>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>")
        return "".join([*tables, *(f"<p>{html.escape(note)}</p>" for note in self.notes())])


def _difference(row: Mapping[str, float]) -> Row:
    if "p" not in row:
        return ["", ""]
    return [f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})", f"{row['p']:.3f}"]


def _costs(run: Ran) -> Row:
    report = run.report
    return [
        f"{report['parameters']:,}",
        f"{report['flops']:.2g}",
        f"{report['tokens_per_second']:,.0f}",
        f"{run.peak_memory / 1e6:,.0f} MB",
        _time(report["seconds"]),
        f"{report['steps']:,}",
    ]


def _time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return (f"{hours}:" if hours else "") + f"{rest // 60:02d}:{rest % 60:02d}"


def _aligned(rows: Sequence[Row]) -> list[str]:
    """Columns as wide as their widest cell: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]


def _finite(row: Mapping[str, float]) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in row.items()}
