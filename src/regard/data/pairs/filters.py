"""Which pairs stay, and a count of those that do not: nothing is dropped in silence.

n pairs
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Self

import numpy
from numpy.typing import NDArray

KINDS = ("empty", "length", "ratio", "duplicate")  # why a pair is dropped; of several reasons the first counts

Flags = NDArray[numpy.bool_]
Faults = NDArray[numpy.int8]  # for each pair 0, or 1 + the number of the reason in KINDS
Hashes = NDArray[numpy.uint64]


@dataclass(frozen=True)
class Filters:
    """The conditions for keeping a pair. Lengths are in tokens; a pair with an empty side is never kept."""

    max_length: int | None = None
    max_ratio: float | None = None
    drop_duplicates: bool = False

    def faults(self, empty: Flags, source: NDArray[numpy.int64], target: NDArray[numpy.int64], seen: Flags) -> Faults:
        """What is wrong with pairs of these lengths, of which some have an empty side, or were seen before: (n,)"""
        longer, shorter = numpy.maximum(source, target), numpy.minimum(source, target)
        found = numpy.where(seen & self.drop_duplicates, KINDS.index("duplicate") + 1, 0).astype(numpy.int8)
        if self.max_ratio is not None:
            found[longer > self.max_ratio * shorter] = KINDS.index("ratio") + 1
        if self.max_length is not None:
            found[longer > self.max_length] = KINDS.index("length") + 1
        found[empty | (shorter == 0)] = KINDS.index("empty") + 1
        return found

    def reason(self, kind: str) -> str:
        """A reason in words."""
        return {
            "empty": "with an empty side",
            "length": f"longer than {self.max_length} tokens",
            "ratio": f"with one side over {self.max_ratio or 1:g} times as long as the other",
            "duplicate": "seen before",
        }[kind]


@dataclass
class Dropped:
    """How many pairs were dropped for one reason, and the place of the first."""

    reason: str
    count: int
    first: str

    def __str__(self) -> str:
        return f"{self.count:,} {self.reason} (first at {self.first})"


@dataclass
class FilterReport:
    """How many pairs were read, kept and dropped. `str()` is a sentence for people."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, Dropped] = field(default_factory=dict)

    def add(self, faults: Faults, filters: Filters, place: Callable[[int], str]) -> None:
        """Count pairs; `place` says where the pair with a number was read."""
        self.read += len(faults)
        self.kept += int((faults == 0).sum())
        first = {int(fault): int(row) for fault, row in zip(*numpy.unique(faults, return_index=True), strict=True)}
        for fault, row in sorted(first.items(), key=lambda each: each[1]):
            if fault:
                kind = KINDS[fault - 1]
                dropped = self.dropped.setdefault(kind, Dropped(filters.reason(kind), 0, place(row)))
                dropped.count += int((faults == fault).sum())

    def join(self, other: Self) -> None:
        """Count the pairs of another report, which were read after those of this one."""
        self.read += other.read
        self.kept += other.kept
        for kind, dropped in other.dropped.items():
            self.dropped.setdefault(kind, Dropped(dropped.reason, 0, dropped.first)).count += dropped.count

    def __str__(self) -> str:
        reasons = ", ".join(map(str, self.dropped.values()))
        return f"{self.read:,} pairs read, {self.kept:,} kept" + (f"; dropped {reasons}" if reasons else "")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        dropped = {kind: Dropped(**values) for kind, values in stored["dropped"].items()}
        return cls(read=stored["read"], kept=stored["kept"], dropped=dropped)


class Seen:
    """The pairs that were seen before, by 64-bit hashes: eight bytes of memory for each.

    Sorted arrays, each at most half as long as the one before it: a hash is looked up in few of them, and moves
    from one array to another few times.
    """

    def __init__(self) -> None:
        self._sorted: list[Hashes] = []

    def add(self, sources: Sequence[str], targets: Sequence[str]) -> Flags:
        """Remember pairs, and return for each whether it was seen before: (n,)"""
        hashes = numpy.fromiter(map(_hash, sources, targets), dtype=numpy.uint64, count=len(sources))
        different, first = numpy.unique(hashes, return_index=True)
        seen = numpy.ones(len(hashes), dtype=bool)
        seen[first] = False
        for known in self._sorted:
            there = numpy.searchsorted(known, hashes)
            seen |= known[numpy.minimum(there, len(known) - 1)] == hashes
        self._keep(different)
        return seen

    def _keep(self, new: Hashes) -> None:
        while self._sorted and len(self._sorted[-1]) < 2 * len(new):
            new = numpy.union1d(self._sorted.pop(), new)
        if len(new):
            self._sorted.append(new)


def _hash(source: str, target: str) -> int:
    text = f"{len(source)} {source}{target}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
