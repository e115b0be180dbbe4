"""Which rows go together into a batch.

A batch is a table as wide as its longest row on each side, so its rows should be of similar length on both sides. Rows
are points (source length, target length). A region of points that is too large for one batch is divided in two, across
either side, where the two parts together need the smallest tables; this is repeated until every part fits.
"""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from regard.errors import RegardError

Rows = NDArray[numpy.int64]  # row numbers

FEW = 3  # from a region of up to this many batches, one full batch is taken at a time: few batches are half empty
PLACES = 64  # places at which a larger region may be divided, at whole numbers of batches
CLOSE = 0.01  # how far batches of processes may be from taking equally long where rows would allow it
SPAN = 4  # times as many rows as the largest batch had that a balanced one may have
MARGIN = (1.05, 1.09)  # expected padding; drawn anew in each epoch, it gives each epoch other batches


def plan(
    source: NDArray[numpy.integer], target: NDArray[numpy.integer], *, budget: int, generator: numpy.random.Generator
) -> list[Rows]:
    """The batches of rows with these lengths: in each, rows × longest row ≤ budget, on both sides.

    Every row is in one batch. Rows of equal lengths are assigned at random.
    """
    longest = numpy.maximum(source, target).astype(numpy.int64)
    if len(longest) and longest.max() > budget:
        raise RegardError(
            f"batch_tokens={budget} is less than the longest row, {longest.max()} tokens; "
            "raise training.batch_tokens or lower data.max_length"
        )
    sides = (source.astype(numpy.int64), target.astype(numpy.int64))
    margin = generator.uniform(*MARGIN)
    regions: list[Rows] = [generator.permutation(len(longest))] if len(longest) else []
    batches: list[Rows] = []
    while regions:
        region = regions.pop()
        if len(region) * longest[region].max() <= budget:
            batches.append(region)
        else:
            expected = int(numpy.ceil(margin * longest[region].sum() / budget))
            regions += _divide(region, sides, expected=expected, budget=budget)
    return batches


def _divide(region: Rows, sides: tuple[Rows, Rows], *, expected: int, budget: int) -> tuple[Rows, Rows]:
    """The two parts of a region, cut across one side, that need the fewest cells."""
    best, parts = numpy.inf, (region, region)
    for axis, other in (sides, sides[::-1]):
        ordered = region[numpy.lexsort((other[region], axis[region]))]
        widths = numpy.stack([axis[ordered], other[ordered]])
        before = numpy.maximum.accumulate(widths, axis=1)  # widths of a table of the rows up to each place
        after = numpy.maximum.accumulate(widths[:, ::-1], axis=1)[:, ::-1]  # of a table of the rows from each place on
        places = _few(before, after, budget) if expected <= FEW else _whole(widths.max(axis=0), expected)
        places = numpy.clip(places, 1, len(region) - 1)
        cells = places * before[:, places - 1].sum(axis=0) + (len(region) - places) * after[:, places].sum(axis=0)
        if cells.min() < best:
            best, place = cells.min(), places[cells.argmin()]
            parts = (ordered[:place], ordered[place:])
    return parts


def _few(before: Rows, after: Rows, budget: int) -> Rows:
    """The places where a full batch ends, taken from either end of the region."""
    rows = numpy.arange(1, before.shape[1] + 1)
    first = (rows * before.max(axis=0) <= budget).sum()
    last = (rows[::-1] * after.max(axis=0) <= budget).sum()
    return numpy.array([first, len(rows) - last])


def _whole(longest: Rows, expected: int) -> Rows:
    """Where whole batches end, if the region is to become `expected` batches."""
    filled = numpy.cumsum(longest)
    batches = numpy.unique(numpy.linspace(1, expected - 1, min(PLACES, expected - 1)).astype(numpy.int64))
    places: Rows = numpy.searchsorted(filled, batches * (filled[-1] / expected))
    return places


def balanced(batches: Sequence[Rows], lengths: NDArray[numpy.integer]) -> list[Rows]:
    """The rows of these batches in as many batches that take about equally long, for processes that learn from them at
    the same time and wait for the slowest; `lengths` (sides, all rows).

    The longest rows come first. A batch takes as long as it has cells and tokens. Its tables on both sides are no
    larger than the largest of those that were given, which are returned as they are if that takes no longer.
    """
    rows = numpy.concatenate(batches)
    rows = rows[numpy.argsort(-lengths[:, rows].max(axis=0), kind="stable")]
    sides = lengths[:, rows].astype(numpy.int64)
    tables, times = zip(*(_growing(lengths[:, batch].astype(numpy.int64)) for batch in batches), strict=True)
    most = max(int(table[-1]) for table in tables)
    span = SPAN * max(map(len, batches))
    found, high = list(batches), max(int(time[-1]) for time in times)
    low = sum(int(time[-1]) for time in times) // len(batches)
    while high - low > CLOSE * low:
        limit = (low + high) // 2
        ends = _cuts(sides, len(batches), limit=limit, most=most, span=span)
        if ends is None:
            low = limit + 1
        else:
            found, high = numpy.split(rows, ends), limit
    return found


def _cuts(sides: Rows, count: int, *, limit: int, most: int, span: int) -> list[int] | None:
    """Where rows are cut into `count` batches that take no longer than `limit`; None if they do not fit into these."""
    begin, ends = 0, list[int]()
    for left in range(count, 0, -1):
        table, time = _growing(sides[:, begin : begin + span])
        fitting = min(int(numpy.searchsorted(time, limit, "right")), int(numpy.searchsorted(table, most, "right")))
        begin += min(fitting, sides.shape[1] - begin - left + 1)  # a row is left for each other batch
        ends.append(begin)
    return ends[:-1] if begin == sides.shape[1] and len({0, *ends}) > count else None


def _growing(lengths: Rows) -> tuple[Rows, Rows]:
    """Of the first 1, 2, … rows with these lengths (sides, rows): the larger of their tables, and the time they take,
    in cells and tokens."""
    tables = numpy.maximum.accumulate(lengths, axis=1) * numpy.arange(1, lengths.shape[1] + 1)
    return tables.max(axis=0), tables.sum(axis=0) + lengths.sum(axis=0).cumsum()
