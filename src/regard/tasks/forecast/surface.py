"""A table in, forecasts out. Torch is not imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from regard.data.series import dates
from regard.data.series.table import Table
from regard.errors import RegardError, shown
from regard.tasks.base import RunOptions, Surface

LEVEL = 80  # percent of numbers that are to be inside of the interval
LOW, HIGH = f"forecast-lo-{LEVEL}", f"forecast-hi-{LEVEL}"
EXAMPLE = '{"unique_id": "a", "ds": ["2024-01", "2024-02"], "y": [1, 2]}'

Forecast = dict[str, str | float]  # a row: unique_id, ds, forecast, and the ends of the interval


@dataclass(frozen=True)
class Asked:
    """What is to be continued: a file by name, or a table."""

    name: str
    table: Table | None = None


class Forecasts(Surface[Asked, list[Forecast]]):
    """The name of a table in; a row for each series and step ahead out, with the names that Nixtla gives columns."""

    answers = "forecasts"
    pipeline = "time-series-forecasting"
    example = "my.csv"
    files = True

    def parse(self, line: str) -> Asked:
        return Asked(line)

    def from_json(self, body: object) -> Asked:
        """The name of a file, a list of numbers, or columns as in `EXAMPLE`; unique_id may be a list, or be absent."""
        if isinstance(body, Asked):
            return body
        if isinstance(body, str):
            return Asked(body)
        columns = body if isinstance(body, Mapping) else {"y": body}
        y = columns.get("y")
        if not isinstance(y, Sequence) or isinstance(y, str) or not y or not all(map(_is_number, y)):
            raise RegardError(f"the name of a table, numbers or {EXAMPLE} are expected, and not {shown(body)}")
        ds = columns.get("ds", list(range(len(y))))
        ids = columns.get("unique_id")
        ids = [str(ids)] * len(y) if isinstance(ids, str | int) else ids
        if not isinstance(ds, Sequence) or len(ds) != len(y) or not (ids is None or _has(ids, len(y))):
            raise RegardError(f"ds, y and unique_id must have the same length, as in {EXAMPLE}")
        rows = range(1, len(y) + 1)
        times = dates.parse([str(each) for each in ds], [f"row {row}" for row in rows])
        names = None if not isinstance(ids, Sequence) else [str(each) for each in ids]
        numbers = numpy.array([numpy.nan if each is None else float(each) for each in y])
        return Asked("the table", Table("the table", list(rows), names, times, {"y": numbers}))

    def from_request(self, body: object) -> Asked:
        if isinstance(body, str | Asked):
            raise RegardError(f"numbers or {EXAMPLE} are expected, and not a text")
        return self.from_json(body)

    def lines(self, answer: list[Forecast], options: RunOptions) -> list[str]:
        """CSV with a header."""
        rows = [",".join(_cell(row[name]) for name in row) for row in answer]
        return [",".join(["unique_id", "ds", "forecast", f"lo-{LEVEL}", f"hi-{LEVEL}"]), *rows]

    def tokens(self, answer: list[Forecast]) -> int:
        return len(answer)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and numpy.isfinite(value))


def _has(ids: object, length: int) -> bool:
    return isinstance(ids, Sequence) and not isinstance(ids, str) and len(ids) == length


def _cell(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    quoted = value.replace('"', '""')
    return f'"{quoted}"' if any(each in value for each in ',"\n') else value
