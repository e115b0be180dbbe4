"""Pairs as token ids on disk, memory-mapped: a corpus may be larger than memory.

A corpus is kept as NAME.arrow, an Arrow IPC file of record batches with the columns `source` and `target`, lists of
ids, and NAME.json, its description with the report of the filters (see `regard.data.kept`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from numpy.typing import NDArray

from regard.data.kept import kept
from regard.data.pairs.examples import Examples
from regard.data.pairs.filters import FilterReport, Filters, Sieve
from regard.data.pairs.pair import Pair
from regard.data.tokenizers import Tokenizers
from regard.errors import RegardError

VERSION = 1
CHUNK_PAIRS, CHUNK_CHARACTERS = 4096, 4_000_000  # the most that are tokenised at a time

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

    def __init__(self, chunks: list[pyarrow.ListArray]) -> None:
        self._offsets = [chunk.offsets.to_numpy() for chunk in chunks]
        self._values = [chunk.values.to_numpy() for chunk in chunks]
        self._starts = numpy.cumsum([0, *(len(chunk) for chunk in chunks)]).tolist()
        self.lengths: NDArray[numpy.int32] = numpy.concatenate(
            [numpy.empty(0, numpy.int32), *(numpy.diff(offsets) for offsets in self._offsets)]
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Ids:
        chunk = bisect_right(self._starts, row) - 1
        begin, end = self._offsets[chunk][row - self._starts[chunk] :][:2]
        ids: Ids = self._values[chunk][begin:end]
        return ids

    def statistics(self) -> Lengths:
        median, high = numpy.percentile(self.lengths, [50, 99], method="inverted_cdf")
        return Lengths(
            int(self.lengths.sum(dtype=numpy.int64)),
            float(self.lengths.mean()),
            int(median),
            int(high),
            int(self.lengths.max()),
        )


class Corpus:
    """Tokenised pairs: `source[row]` and `target[row]` are ids without BOS and EOS; `source.lengths` all lengths."""

    def __init__(self, path: Path, report: FilterReport, *, checksum: str) -> None:
        with pyarrow.ipc.open_file(pyarrow.memory_map(str(path))) as file:
            batches = [file.get_batch(number) for number in range(file.num_record_batches)]
        self.source = Column([batch["source"] for batch in batches])
        self.target = Column([batch["target"] for batch in batches])
        self.report = report
        self.checksum = checksum

    def __len__(self) -> int:
        return len(self.source)


def prepare(
    examples: Examples,
    tokenizers: Tokenizers,
    *,
    folder: Path,
    name: str,
    filters: Filters,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """The corpus `name` in `folder`; it is made unless it exists and nothing has changed.

    `progress` is called with the number of pairs read so far.
    """
    path = folder / f"{name}.arrow"
    corpus = kept(
        path,
        made_from=[VERSION, examples.fingerprint, tokenizers.fingerprint, asdict(filters)],
        make=lambda beside: _write(beside, examples, tokenizers, filters, progress),
        read=lambda stored: Corpus(path, FilterReport.from_json(stored["report"]), checksum=stored["checksum"]),
    )
    if not corpus.report.kept:
        raise RegardError(f"no pair of {name} is left: {corpus.report}; check data.columns and the filters of [data]")
    return corpus


def _write(
    path: Path,
    examples: Examples,
    tokenizers: Tokenizers,
    filters: Filters,
    progress: Callable[[int], None] | None,
) -> dict[str, object]:
    sieve = Sieve(filters)
    narrow = max(tokenizers.source.size, tokenizers.target.size) <= 2**16
    ids = pyarrow.list_(pyarrow.uint16() if narrow else pyarrow.int32())
    schema = pyarrow.schema([("source", ids), ("target", ids)])
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as writer:
        for chunk in _chunks(examples):
            writer.write_batch(pyarrow.record_batch(_encode(chunk, tokenizers, sieve), schema=schema))
            if progress:
                progress(sieve.report.read)
    return {"report": sieve.report.to_json()}


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    chunk: list[Pair] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair.source) + len(pair.target)
        if len(chunk) == CHUNK_PAIRS or characters > CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _encode(chunk: list[Pair], tokenizers: Tokenizers, sieve: Sieve) -> list[list[list[int]]]:
    """The sources and the targets of the pairs that stay."""
    sources = tokenizers.source.encode([pair.source for pair in chunk])
    targets = tokenizers.target.encode([pair.target for pair in chunk])
    kept = [
        (source, target)
        for pair, source, target in zip(chunk, sources, targets, strict=True)
        if sieve.keeps(pair, len(source), len(target))
    ]
    return [[source for source, _ in kept], [target for _, target in kept]]
