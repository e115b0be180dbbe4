"""Pairs as ids on disk, memory-mapped: as large as the disk, as small in memory as what is in use.

A corpus is two files: NAME.arrow, an Arrow IPC file of record batches with the columns `source` and `target`, lists
of ids; and NAME.json, what it was made from, how many bytes it has, their checksum, and the report of the filters.
Both are written beside and renamed, the second last, so a corpus is there whole or not at all.
"""

import json
import os
import warnings
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from numpy.typing import NDArray

from regard.data.examples import Examples
from regard.data.files import Pair
from regard.data.filters import FilterReport, Filters, Sieve
from regard.data.tokenizers import Tokenizers
from regard.errors import RegardError

VERSION = 1
CHUNK_PAIRS, CHUNK_CHARACTERS = 4096, 4_000_000  # what is tokenised at a time

Ids = NDArray[numpy.integer[Any]]


@dataclass(frozen=True)
class Lengths:
    """How long the rows of one side are, in tokens."""

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


class Side:
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
    """Tokenised pairs: `source[row]` and `target[row]` are ids without BOS and EOS; `source.lengths` is all lengths."""

    def __init__(self, path: Path, report: FilterReport, *, checksum: str) -> None:
        with pyarrow.ipc.open_file(pyarrow.memory_map(str(path))) as file:
            batches = [file.get_batch(number) for number in range(file.num_record_batches)]
        self.source = Side([batch["source"] for batch in batches])
        self.target = Side([batch["target"] for batch in batches])
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
    """The corpus `name` in `folder`: the one that is there if nothing changed, else a new one.

    `progress` is called with the number of pairs read so far.
    """
    made_from = sha256(
        repr([VERSION, examples.fingerprint, tokenizers.fingerprint, asdict(filters)]).encode()
    ).hexdigest()
    path = folder / f"{name}.arrow"
    stored = _stored(path, made_from)
    if stored is None:
        folder.mkdir(parents=True, exist_ok=True)
        stored = _write(path, examples, tokenizers, filters, made_from, progress)
    report, checksum = stored
    if not report.kept:
        raise RegardError(f"no pair of {name} is left: {report}; check data.columns and the filters of [data]")
    return Corpus(path, report, checksum=checksum)


def _stored(path: Path, made_from: str) -> tuple[FilterReport, str] | None:
    """The report and the checksum of a corpus that is there, is whole and was made from the same."""
    description = path.with_suffix(".json")
    if not description.exists():
        return None
    try:
        stored = json.loads(description.read_text(encoding="utf-8"))
        if stored["made_from"] != made_from:
            return None
        checksum = checksum_of(path)
        if stored["checksum"] != checksum:
            raise ValueError("the checksum differs")
        return FilterReport.from_json(stored["report"]), checksum
    except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.warn(f"{path} is damaged ({error}) and is made again", RuntimeWarning, stacklevel=3)
        return None


def _write(
    path: Path,
    examples: Examples,
    tokenizers: Tokenizers,
    filters: Filters,
    made_from: str,
    progress: Callable[[int], None] | None,
) -> tuple[FilterReport, str]:
    sieve = Sieve(filters)
    narrow = max(tokenizers.source.size, tokenizers.target.size) <= 2**16
    ids = pyarrow.list_(pyarrow.uint16() if narrow else pyarrow.int32())
    schema = pyarrow.schema([("source", ids), ("target", ids)])
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with pyarrow.OSFile(str(beside), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as writer:
            for chunk in _chunks(examples):
                writer.write_batch(pyarrow.record_batch(_encode(chunk, tokenizers, sieve), schema=schema))
                if progress:
                    progress(sieve.report.read)
        checksum = checksum_of(beside)
        description = {"made_from": made_from, "checksum": checksum, "report": sieve.report.to_json()}
        beside.replace(path)
        beside.write_text(json.dumps(description), encoding="utf-8")
        beside.replace(path.with_suffix(".json"))
    except OSError as error:
        raise RegardError(f"{path} cannot be written ({error}); make room or choose another folder") from None
    finally:
        beside.unlink(missing_ok=True)
    return sieve.report, checksum


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


def checksum_of(path: Path) -> str:
    """Size and CRC-32 of a file."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return f"{path.stat().st_size}-{checksum:08x}"
