"""A shard of pairs: texts become an Arrow file of ids.

The content has the columns `source` and `target`, texts; `line`, the number of the line of each pair; and `seen`,
whether the pair was seen before. Its schema says which rows are from which file.

The file has record batches with the columns `source` and `target`, lists of ids without BOS and EOS.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy
import pyarrow
from numpy.typing import NDArray
from pydantic import JsonValue

from regard.data.pairs.filters import FilterReport, Filters
from regard.data.pairs.pair import Pair
from regard.data.tokenizers import Tokenizers

CHUNK_PAIRS, CHUNK_CHARACTERS = 4096, 4_000_000  # the most that are tokenised at a time
FILES = b"files"  # of the schema of a content: [[first row, file], …]

CONTENT = [
    ("source", pyarrow.large_string()),
    ("target", pyarrow.large_string()),
    ("line", pyarrow.int64()),
    ("seen", pyarrow.bool_()),
]


def content_of(pairs: Sequence[Pair], seen: NDArray[numpy.bool_]) -> pyarrow.RecordBatch:
    """Pairs as the content of a shard."""
    sources, targets, files, lines = zip(*pairs, strict=True)
    starts = [row for row, file in enumerate(files) if not row or file != files[row - 1]]
    schema = pyarrow.schema(CONTENT, metadata={FILES: json.dumps([[row, files[row]] for row in starts])})
    return pyarrow.record_batch([sources, targets, lines, pyarrow.array(seen)], schema=schema)


@dataclass(frozen=True)
class PairMaker:
    """Tokenises and filters pairs."""

    tokenizers: Tokenizers
    filters: Filters

    def settings(self) -> dict[str, JsonValue]:
        return {"medium": "pairs", **self.tokenizers.settings(), "filters": asdict(self.filters)}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Self:
        return cls(Tokenizers.from_settings(settings), Filters(**settings["filters"]))

    def make(self, content: pyarrow.RecordBatch, path: Path) -> dict[str, object]:
        """Write the shard, and return the report of the filters."""
        report, files = FilterReport(), json.loads(content.schema.metadata[FILES])
        starts, lines = [row for row, _ in files], content["line"]

        def place(row: int) -> str:
            return f"{files[bisect_right(starts, row) - 1][1]}:{lines[row].as_py()}"

        narrow = max(self.tokenizers.source.size, self.tokenizers.target.size) <= 2**16
        ids = pyarrow.list_(pyarrow.uint16() if narrow else pyarrow.int32())
        schema = pyarrow.schema([("source", ids), ("target", ids)])
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as writer:
            for begin, sources, targets, seen in _chunks(content):
                source, target = (
                    self.tokenizers.source.encode_flat(sources),
                    self.tokenizers.target.encode_flat(targets),
                )
                empty = numpy.array([not (a.strip() and b.strip()) for a, b in zip(sources, targets, strict=True)])
                faults = self.filters.faults(empty, source[1], target[1], seen)
                report.add(faults, self.filters, lambda row, begin=begin: place(begin + row))  # type: ignore[misc]
                columns = [_lists(*side, faults == 0, ids) for side in (source, target)]
                writer.write_batch(pyarrow.record_batch(columns, schema=schema))
        return {"report": report.to_json()}


def _chunks(content: pyarrow.RecordBatch) -> Iterator[tuple[int, list[str], list[str], NDArray[numpy.bool_]]]:
    """The first row of each chunk, its sources and targets, and which pairs were seen before."""
    begin = 0
    while begin < len(content):
        part = content.slice(begin, CHUNK_PAIRS)
        sources, targets = part["source"].to_pylist(), part["target"].to_pylist()
        sizes = numpy.cumsum([len(a) + len(b) for a, b in zip(sources, targets, strict=True)])
        end = min(int(numpy.searchsorted(sizes, CHUNK_CHARACTERS, side="right")) + 1, len(sizes))
        yield begin, sources[:end], targets[:end], part["seen"].to_numpy(zero_copy_only=False)[:end]
        begin += end


def _lists(
    ids: NDArray[numpy.int64], lengths: NDArray[numpy.int64], kept: NDArray[numpy.bool_], kind: pyarrow.DataType
) -> pyarrow.ListArray:
    """The lists of ids of the pairs that are kept, from the ids of all of them one after the other."""
    values = ids[numpy.repeat(kept, lengths)].astype(kind.value_type.to_pandas_dtype())
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths[kept])]).astype(numpy.int32)
    return pyarrow.ListArray.from_arrays(pyarrow.array(offsets), pyarrow.array(values))
