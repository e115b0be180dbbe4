"""Pairs as token ids on disk, memory-mapped: a corpus may be larger than memory.

A corpus of up to `SHARD_PAIRS` pairs is kept as NAME.arrow, an Arrow IPC file of record batches with the columns
`source` and `target`, lists of ids, and NAME.json, its description with the report of the filters (see
`regard.data.kept`). A larger one, or a mixture, is kept in shards of that form, NAME-00000.arrow and so on, each with a
description of its own (see `regard.data.shards`); NAME.json lists them.
"""

import json
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from numpy.typing import NDArray

from regard import durable
from regard.data.kept import DAMAGED, checksum_of, digest_of, made
from regard.data.mapped import Mapped, Numbers
from regard.data.pairs.examples import Examples
from regard.data.pairs.filters import FilterReport, Filters, Seen
from regard.data.pairs.pair import Pair
from regard.data.pairs.shard import PairMaker, content_of
from regard.data.shards import shards
from regard.data.tokenizers import Tokenizers
from regard.data.watching import watching
from regard.errors import RegardError

VERSION = 1
SHARD_PAIRS, SHARD_CHARACTERS = 1 << 16, 16_000_000  # the most of one shard
COUNTED = 1 << 20  # lengths that are counted at a time

Progress = Callable[[int, float], None]  # how many pairs were read, and which share of the files
Ids = NDArray[numpy.integer[Any]]


@dataclass(frozen=True)
class Lengths:
    """The lengths of the rows of one side, in tokens."""

    tokens: int
    mean: float
    median: int
    percentile_99: int
    longest: int

    def __str__(self) -> str:
        return (
            f"{self.tokens:,} tokens, {self.mean:.1f} a row (half up to {self.median}, "
            f"99 % up to {self.percentile_99}, longest {self.longest})"
        )


class Column:
    """The ids of all sources or all targets, by row."""

    def __init__(self, chunks: Iterable[pyarrow.ListArray], *, rows: int) -> None:
        self._starts, self._offsets, self._values = [0], list[Ids](), list[Ids]()
        lengths: Ids = numpy.empty(rows, dtype=numpy.uint16)
        for chunk in chunks:
            begin, end = self._starts[-1], self._starts[-1] + len(chunk)
            self._starts.append(end)
            self._offsets.append(chunk.offsets.to_numpy())
            self._values.append(chunk.values.to_numpy())
            some = numpy.diff(self._offsets[-1])
            if some.max(initial=0) >= 2**16:
                lengths = lengths.astype(numpy.int32)
            lengths[begin:end] = some
        self._lengths = Numbers(lengths)

    @property
    def lengths(self) -> Ids:
        return self._lengths.values

    def release(self) -> None:
        """Let go of the lengths that were read, if they are many."""
        self._lengths.release()

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Ids:
        chunk = bisect_right(self._starts, row) - 1
        begin, end = self._offsets[chunk][row - self._starts[chunk] :][:2]
        ids: Ids = self._values[chunk][begin:end]
        return ids

    def statistics(self) -> Lengths:
        counts = numpy.zeros(1, dtype=numpy.int64)  # how many rows have each length
        for begin in range(0, len(self.lengths), COUNTED):
            some = numpy.bincount(self.lengths[begin : begin + COUNTED], minlength=len(counts))
            some[: len(counts)] += counts
            counts = some
        self.release()
        up_to, tokens = numpy.cumsum(counts), int(counts @ numpy.arange(len(counts)))
        median, high = (int(numpy.searchsorted(up_to, -(-len(self) * percent // 100))) for percent in (50, 99))
        return Lengths(tokens, tokens / len(self), median, high, len(counts) - 1)


class Corpus:
    """Tokenised pairs: `source[row]` and `target[row]` are ids without BOS and EOS; `source.lengths` all lengths.

    `parts` has the number of pairs of each corpus of a mixture.
    """

    def __init__(
        self, paths: Sequence[Path], report: FilterReport, *, checksum: str, parts: Sequence[int] = ()
    ) -> None:
        self.report, self.checksum, self.parts = report, checksum, tuple(parts)
        self._mapped = Mapped(paths)
        self._shards = range(len(paths))
        self.source, self.target = (Column(self._chunks(side), rows=report.kept) for side in ("source", "target"))

    def _chunks(self, side: str) -> Iterator[pyarrow.ListArray]:
        """One side of all record batches; what was read of a shard is let go before the next."""
        for number in self._shards:
            yield from (batch[side] for batch in self._mapped.batches(number))
            self._mapped.release(number)

    def __len__(self) -> int:
        return len(self.source)

    def release(self) -> None:
        """Let go of what was read of a large corpus: it stays on disk, and not in memory."""
        self._mapped.release()
        self.source.release()
        self.target.release()


def prepare(
    examples: Examples,
    tokenizers: Tokenizers,
    *,
    folder: Path,
    name: str,
    filters: Filters,
    processes: int = 1,
    progress: Progress | None = None,
) -> Corpus:
    """The corpus `name` in `folder`; it is made unless it exists and nothing has changed.

    Of a large corpus, shards that are there and whose pairs are the same are kept.
    """
    durable.sweep(folder)
    digest = digest_of([VERSION, examples.fingerprint, tokenizers.fingerprint, asdict(filters)])
    corpus, path = None, folder / f"{name}.arrow"
    try:
        corpus = _stored(path, digest)
    except DAMAGED as error:
        warnings.warn(f"{path} is damaged ({error}) and is made again", RuntimeWarning, stacklevel=2)
    if corpus is None:
        described = _made(path, digest, examples, PairMaker(tokenizers, filters), processes, progress)
        corpus = _opened(path, described)
    if not corpus.report.kept:
        raise RegardError(f"no pair of {name} is left: {corpus.report}; check data.columns and the filters of [data]")
    return corpus


def _stored(path: Path, digest: str) -> Corpus | None:
    """The corpus that is there; None if there is none, or if it was made from something else."""
    description = path.with_suffix(".json")
    if not description.exists():
        return None
    described: dict[str, Any] = json.loads(description.read_text(encoding="utf-8"))
    if described["made_from"] != digest:
        return None
    for place, checksum in _files(path, described).items():
        if checksum_of(place) != checksum:
            raise ValueError(f"the checksum of {place.name} differs")
    return _opened(path, described)


def _opened(path: Path, described: Mapping[str, Any]) -> Corpus:
    report = FilterReport.from_json(described["report"])
    files = list(_files(path, described))
    return Corpus(files, report, checksum=described["checksum"], parts=described.get("parts", ()))


def _files(path: Path, described: Mapping[str, Any]) -> dict[Path, str]:
    """The files of a corpus, with their checksums."""
    if "shards" not in described:
        return {path: described["checksum"]}
    return {_place(path, number): checksum for number, checksum in enumerate(described["shards"])}


def _place(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number:05d}.arrow")


def _made(
    path: Path, digest: str, examples: Examples, maker: PairMaker, processes: int, progress: Progress | None
) -> Mapping[str, Any]:
    """Make a corpus in one file or in shards. → its description"""
    parts = examples.parts
    with watching() as watch:
        size = sum(stamp[1] for stamp in examples.stamps)

        def told(done: int, read: int) -> None:
            if progress:
                progress(done, min(watch.read / max(size, 1), 1.0) * done / max(read, 1))

        told(0, 0)
        contents = _contents(parts, maker.filters)
        few = list(islice(contents, 2))
        if len(parts) == 1 and len(few) == 1:
            described = made(path, digest, lambda beside: maker.make(few[0][1], beside))
            _forget(path, from_=0)
            told(described["report"]["read"], described["report"]["read"])
            return described
        return _made_in_shards(path, digest, chain(few, contents), maker, processes, told)


def _made_in_shards(
    path: Path,
    digest: str,
    contents: Iterable[tuple[int, pyarrow.RecordBatch]],
    maker: PairMaker,
    processes: int,
    told: Callable[[int, int], None],
) -> Mapping[str, Any]:
    description = path.with_suffix(".json")
    durable.remove_file(description)  # what it describes is about to be replaced
    durable.make_directory(path.parent)
    report, sums, owners = FilterReport(), list[str](), list[int]()
    kept: dict[int, int] = {}
    read = 0  # pairs, of which some may wait to be tokenised

    def noted() -> Iterator[pyarrow.RecordBatch]:
        nonlocal read
        for part, content in contents:
            owners.append(part)
            read += len(content)
            yield content

    places = shards(noted(), maker, place=lambda number: _place(path, number), processes=processes)
    for number, shard in enumerate(places):
        one = FilterReport.from_json(shard["report"])
        report.join(one)
        sums.append(shard["checksum"])
        kept[owners[number]] = kept.get(owners[number], 0) + one.kept
        told(report.read, read)
    _forget(path, from_=len(sums))
    durable.remove_file(path)
    described = {
        "made_from": digest,
        "checksum": sha256("".join(sums).encode()).hexdigest(),
        "report": report.to_json(),
        "shards": sums,
        "parts": [kept.get(part, 0) for part in range(max(owners) + 1)] if owners else [],
    }
    durable.write_file(description, json.dumps(described).encode())
    return described


def _forget(path: Path, *, from_: int) -> None:
    """Remove shards of an earlier making, from one number on."""
    for place in path.parent.glob(f"{path.stem}-[0-9]*.arrow"):
        number = place.stem.removeprefix(f"{path.stem}-")
        if number.isdigit() and int(number) >= from_:
            durable.remove_file(place.with_suffix(".json"))
            durable.remove_file(place)


def _contents(parts: Sequence[Iterable[Pair]], filters: Filters) -> Iterator[tuple[int, pyarrow.RecordBatch]]:
    """The contents of all shards, each with the number of its part."""
    seen = Seen()
    for number, part in enumerate(parts):
        for pairs in _shares(part):
            flags = numpy.zeros(len(pairs), dtype=bool)
            if filters.drop_duplicates:
                flags = seen.add([pair.source for pair in pairs], [pair.target for pair in pairs])
            yield number, content_of(pairs, flags)


def _shares(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Pairs in lists that become shards."""
    left = iter(pairs)
    share: list[Pair] = []
    characters = 0
    while some := list(islice(left, 256)):
        share += some
        characters += sum(len(pair.source) + len(pair.target) for pair in some)
        if len(share) >= SHARD_PAIRS or characters > SHARD_CHARACTERS:
            yield share
            share, characters = [], 0
    if share:
        yield share
