"""The series of a table: long, with a column that names the series (`unique_id, ds, y`), or one column for each series.

The columns are found by their names and contents unless they are given. Rows may stand in any order. Steps without a
number at the beginning and the end of a series are left out; a step that is missing between others is an error unless
`fill` says how to fill it, and so is a time that occurs twice.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import islice

import numpy
from numpy.typing import NDArray
from pydantic import Field

from regard.checking import Settings
from regard.data.files import is_numbered, read_lines, read_object, read_rows, stamp
from regard.data.packing import without_packing
from regard.data.series import dates
from regard.data.series.dates import Steps, Times
from regard.data.series.frequency import Frequency, infer
from regard.data.series.series import Fill, Numbers, Series
from regard.errors import RegardError, cut, listed, shown, unknown_name

BUNDLED = "series:"
UNTIL = "?until="
TIMES = ("ds", "date", "datetime", "timestamp", "time", "day", "week", "month", "quarter", "year", "period")
IDS = ("unique_id", "series_id", "item_id", "series", "item", "id")
VALUE = "y"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
LARGEST = 1e30  # a number; the changes of larger ones do not fit into single precision
LOOKED_AT = 50  # rows at the beginning, by which columns are told apart


class Columns(Settings):
    """Which column is which; those that are not given are found."""

    id: str | None = Field(None, description="names the series of a row, in a long table")
    time: str | None = Field(None, description="dates, or whole numbers")
    value: str | list[str] | None = Field(None, description="the numbers; several columns are several series")


@dataclass(frozen=True)
class Table:
    """The rows of a file: number, series (None in a table without a column for it), time, and columns of numbers."""

    name: str
    rows: Sequence[int]
    ids: Sequence[str] | None
    times: Times | Steps
    values: dict[str, Numbers]


def read(name: str, columns: Columns | None = None, *, fill: Fill | None = None) -> list[Series]:
    """The series of a file, or of a bundled one such as "series:airline", in order of their names or columns.

    Of "my.csv?until=2020-12", steps after that time are not read.
    """
    path, asked, until = name.partition(UNTIL)
    found = series_of(_read(_file(path), columns or Columns()), fill=fill)
    if not asked:
        return found
    last = found[0].frequency.position(until, f"{path}{UNTIL}{until}")
    kept = [each.cut(each.until(last)) for each in found if each.until(last)]
    if not kept:
        raise RegardError(f"{path} has no steps up to {until}; name a later time")
    return kept


def series_of(table: Table, *, fill: Fill | None = None) -> list[Series]:
    """The rows of a table as series on one grid."""
    for row, name in zip(table.rows, table.ids or (), strict=False):
        if not name.strip():
            raise RegardError(f"{table.name}:{row} does not name its series; fill the name in, or leave the row out")
    groups = list(_groups(table))
    times = [table.times[rows] for _, rows, _ in groups]
    for group, own in zip(groups, times, strict=True):
        _refuse_repeated(table, group, own)
    if not any(len(own) > 1 for own in times):
        raise RegardError(f"{table.name}: no series has two rows or more; a series needs several numbers")
    frequency = infer([own for own in times if len(own) > 1])
    return [
        _on_grid(table, group, frequency.positions(own), frequency).filled(fill)
        for group, own in zip(groups, times, strict=True)
    ]


Group = tuple[str, Steps, Numbers]  # a series: its name, its rows in order of time, its numbers in that order


def _groups(table: Table) -> Iterator[Group]:
    """The series of a table, sorted by time; a warning tells of rows that were not in order."""
    parts: list[tuple[str | None, Steps]] = [(None, numpy.arange(len(table.rows)))]
    if table.ids is not None:
        names, number = numpy.unique(numpy.array(table.ids, dtype=object).astype(str), return_inverse=True)
        order = numpy.argsort(number, kind="stable")
        ends = numpy.cumsum(numpy.bincount(number, minlength=len(names)))
        parts = list(zip(names.tolist(), numpy.split(order, ends[:-1]), strict=True))
    unsorted = 0
    for own, rows in parts:
        ordered = rows[numpy.argsort(table.times[rows], kind="stable")]
        unsorted += bool((ordered != rows).any())
        for column, values in table.values.items():
            both = column if own is None else own if len(table.values) == 1 else f"{own} {column}"
            yield both, ordered, values[ordered]
    if unsorted:
        warnings.warn(f"{table.name}: rows not in order of time were sorted ({unsorted:,} series)", stacklevel=2)


def _refuse_repeated(table: Table, group: Group, times: Times | Steps) -> None:
    same = numpy.flatnonzero(times[1:] == times[:-1])
    if len(same):
        first, second = (table.rows[group[1][at]] for at in (same[0], same[0] + 1))
        raise RegardError(
            f"{table.name}:{second} has the same time as row {first} of series {group[0]!r}; leave one of them out, or "
            "name the column that tells series apart as data.columns.id"
        )


def _on_grid(table: Table, group: Group, positions: Steps, frequency: Frequency) -> Series:
    """The series with NaN at the steps that have no row."""
    name, rows, values = group
    steps, off = numpy.divmod(positions - positions[0], frequency.step)
    if off.any() or (numpy.diff(steps) == 0).any():
        at = int(off.argmax() if off.any() else (numpy.diff(steps) == 0).argmax() + 1)
        raise RegardError(
            f"{table.name}:{table.rows[rows[at]]}: this time of series {name!r} does not fit to the others, which are "
            f"{frequency} apart; mend it, or give every row the same distance"
        )
    if steps[-1] > 1000 + 100 * len(steps):
        at = int(numpy.diff(steps).argmax())
        raise RegardError(
            f"{table.name}: series {name!r} has {len(steps):,} rows for {steps[-1] + 1:,} steps ({frequency}); check "
            f"the times in rows {table.rows[rows[at]]} and {table.rows[rows[at + 1]]}"
        )
    whole = numpy.full(int(steps[-1]) + 1, numpy.nan)
    whole[steps] = values
    return Series(name, int(positions[0]), whole, frequency, table.name)


# reading


def _file(name: str) -> str:
    """The path of a file; that of a bundled series by its name."""
    if not name.startswith(BUNDLED):
        return name
    folder = resources.files("regard.data.series") / "bundled"
    known = sorted(entry.name.removesuffix(".csv") for entry in folder.iterdir() if entry.name.endswith(".csv"))
    if name.removeprefix(BUNDLED) not in known:
        raise unknown_name("series", name, [BUNDLED + each for each in known])
    return str(folder / f"{name.removeprefix(BUNDLED)}.csv")


def _read(name: str, columns: Columns) -> Table:
    if name.lower().endswith(".parquet"):
        return _read_parquet(name, columns)
    header = _header(name)
    sample = [cells for _, cells in islice(read_rows(name, header, numbers=True), LOOKED_AT)]
    if not any(map(any, sample)):
        raise RegardError(f"{name} has no rows below its header; give a table with times and numbers")
    identity, time, values = _chosen(name, columns, header, sample)
    wanted = [time, *values, *([identity] if identity else [])]
    rows, cells = [], []
    for row, found in read_rows(name, wanted, numbers=True):
        if any(cell.strip() for cell in found):
            rows.append(row)
            cells.append(found)
    across = list(zip(*cells, strict=True))
    times = dates.parse(across[0], [f"{name}:{row}" for row in rows])
    numbers = {
        column: numpy.array([_number(name, row, column, cell) for row, cell in zip(rows, across[at + 1], strict=True)])
        for at, column in enumerate(values)
    }
    return Table(name, rows, across[-1] if identity else None, times, numbers)


def _header(name: str) -> list[str]:
    """The names of the columns: the first line, or the keys of the first object of JSONL."""
    first = next((line for _, line in read_lines(name) if line.strip()), "")
    if without_packing(name).endswith(".jsonl"):
        return list(read_object(f"{name}:1", first, ("unique_id", "ds", "y")))
    header = first.split("\t") if is_numbered(name) else next(csv.reader([first]), [])
    if not first:
        raise RegardError(f"{name} has only blank lines; give a table with times and numbers")
    if len(header) < 2:
        marked = next((f"; put commas where it has {shown(mark)}" for mark in (";", "\t", "|") if mark in first), "")
        raise RegardError(f"{name} has one column; a table needs a column of times and one of numbers{marked}")
    if twice := [column for column in header if header.count(column) > 1]:
        raise RegardError(f"{name} has more than one column {shown(twice[0])}; give each a name of its own")
    if any(dates.is_date(cell) for cell in header):
        raise RegardError(f"{name} has no header: its first line is {shown(first, most=60)}; name the columns there")
    return header


def _chosen(
    name: str, columns: Columns, header: Sequence[str], sample: Sequence[Sequence[str]]
) -> tuple[str | None, str, list[str]]:
    """The columns of series, times and numbers: as given, by name, or by what the first rows hold."""
    given = [columns.id, columns.time, *([columns.value] if isinstance(columns.value, str) else columns.value or [])]
    for column in given:
        if column is not None and column not in header:
            raise RegardError(
                f"{name} has no column {shown(column)}; it has {listed(header)}: choose with data.columns"
            )
    cells = {column: [row[at] for row in sample] for at, column in enumerate(header)}
    dated = [column for column in header if any(cells[column]) and all(map(dates.is_date, filter(None, cells[column])))]
    time = columns.time or _named(header, TIMES) or next(iter(dated), None)
    if time is None:
        raise RegardError(f"{name} has no column of times among {listed(header)}; name it as data.columns.time")
    identity = columns.id or _named([column for column in header if column != time], IDS)
    rest = [column for column in header if column not in (time, identity)]
    values = columns.value or ([VALUE] if VALUE in rest else [each for each in rest if _are_numbers(cells[each])])
    if not values:
        held = [
            f"{column!r} has {shown(cells[column][0])} in the first row" for column in rest[:3] if any(cells[column])
        ]
        about = f" ({', '.join(held)})" if held else ""
        raise RegardError(f"{name} has no column of numbers beside {time!r}{about}; name it as data.columns.value")
    return identity, time, [values] if isinstance(values, str) else values


def _named(header: Sequence[str], words: Sequence[str]) -> str | None:
    lower = [column.strip().lower() for column in header]
    return next((header[lower.index(word)] for word in words if word in lower), None)


def _are_numbers(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers: most of its first cells are, so that a wrong one among them is reported."""
    known = [cell for cell in cells if cell.strip().lower() not in MISSING]
    return sum(_float(cell) is not None for cell in known) > len(known) / 2 if known else False


def _float(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _number(name: str, row: int, column: str, cell: str) -> float:
    if cell.strip().lower() in MISSING:
        return math.nan
    found = _float(cell)
    if found is None or not math.isfinite(found):
        raise RegardError(f"{name}:{row} has {shown(cell)} in the column {column!r}, and a number is expected")
    if abs(found) > LARGEST:
        raise RegardError(
            f"{name}:{row} has {shown(cell)} in the column {column!r}; numbers up to {LARGEST:g} are read"
        )
    return found


def _read_parquet(name: str, columns: Columns) -> Table:
    import pyarrow
    import pyarrow.parquet

    stamp(name)  # a missing or empty file has the same error as in other forms
    try:
        with pyarrow.parquet.ParquetFile(name) as file:
            header = list(file.schema_arrow.names)
            first = next(file.iter_batches(batch_size=LOOKED_AT), None)
            sample = [] if first is None else [[_text(cell) for cell in row.values()] for row in first.to_pylist()]
            identity, time, values = _chosen(name, columns, header, sample)
            whole = file.read(columns=[time, *values, *([identity] if identity else [])])
    except (pyarrow.ArrowException, OSError) as error:
        raise RegardError(f"{name} is not a sound Parquet file ({cut(error)}); fetch or write it again") from None
    rows = list(range(1, len(whole) + 1))
    if not rows:
        raise RegardError(f"{name} has no rows; give a table with times and numbers")
    texts = [_text(cell) for cell in whole[time].to_pylist()]
    times = dates.parse(texts, [f"{name}:{row}" for row in rows])
    numbers = {column: _column(name, column, whole[column].to_pylist()) for column in values}
    ids = [_text(cell) for cell in whole[identity].to_pylist()] if identity else None
    return Table(name, rows, ids, times, numbers)


def _column(name: str, column: str, cells: Sequence[object]) -> NDArray[numpy.float64]:
    return numpy.array([_number(name, row, column, _text(cell)) for row, cell in enumerate(cells, 1)])


def _text(cell: object) -> str:
    """A cell of Parquet as it would stand in CSV."""
    return "" if cell is None else str(cell)
