"""Which pairs stay, and a count of those that do not: nothing is dropped in silence."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Self

from regard.data.pairs.pair import Pair


@dataclass(frozen=True)
class Filters:
    """The conditions for keeping a pair. Lengths are in tokens; a pair with an empty side is never kept."""

    max_length: int | None = None
    max_ratio: float | None = None
    drop_duplicates: bool = False


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

    def drop(self, kind: str, reason: str, place: str) -> None:
        self.dropped.setdefault(kind, Dropped(reason, 0, place)).count += 1

    def __str__(self) -> str:
        reasons = ", ".join(map(str, self.dropped.values()))
        return f"{self.read:,} pairs read, {self.kept:,} kept" + (f"; dropped {reasons}" if reasons else "")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        dropped = {kind: Dropped(**values) for kind, values in stored["dropped"].items()}
        return cls(read=stored["read"], kept=stored["kept"], dropped=dropped)


class Sieve:
    """Applies filters to one corpus and keeps the report.

    Looking for duplicates stores eight bytes of hash a pair (about 100 bytes of memory each); nothing else
    grows with the corpus.
    """

    def __init__(self, filters: Filters) -> None:
        self.filters = filters
        self.report = FilterReport()
        self._seen: set[bytes] = set()

    def keeps(self, pair: Pair, source: int, target: int) -> bool:
        """Whether a pair of that many source and target tokens is kept; the report counts it either way."""
        self.report.read += 1
        verdict = self._fault(pair, source, target)
        if verdict is None:
            self.report.kept += 1
            return True
        self.report.drop(*verdict, pair.place)
        return False

    def _fault(self, pair: Pair, source: int, target: int) -> tuple[str, str] | None:
        longest, ratio = self.filters.max_length, self.filters.max_ratio
        if pair.empty or not source or not target:
            return "empty", "with an empty side"
        if longest is not None and max(source, target) > longest:
            return "length", f"longer than {longest} tokens"
        if ratio is not None and max(source, target) > ratio * min(source, target):
            return "ratio", f"with one side over {ratio:g} times as long as the other"
        if self.filters.drop_duplicates and self._seen_before(pair):
            return "duplicate", "seen before"
        return None

    def _seen_before(self, pair: Pair) -> bool:
        text = f"{len(pair.source)} {pair.source}{pair.target}"
        digest = blake2b(text.encode(), digest_size=8).digest()
        before = digest in self._seen
        self._seen.add(digest)
        return before
