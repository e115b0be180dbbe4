"""A pair of texts, from one file with two columns or from two files of lines."""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import PositiveInt

from regard.checking import Settings
from regard.data.files import expanded, is_numbered, read_lines, read_rows, stamp
from regard.errors import RegardError


class Files(Settings):
    """Two files whose lines belong together: line n of one and line n of the other are a pair."""

    source: str
    target: str


class Columns(Settings):
    """The columns of a pair: names, or numbers counted from 1.

    In TSV and CSV a name means that the first line is a header. Not given: the first two columns of a TSV,
    "source" and "target" in CSV, JSONL and Parquet.
    """

    source: PositiveInt | str | None = None
    target: PositiveInt | str | None = None

    def pick(self, *, numbered: bool) -> tuple[int | str, int | str]:
        """The two columns, with defaults for a file whose columns are `numbered` or named."""
        source, target = (1, 2) if numbered else ("source", "target")
        return (self.source or source, self.target or target)


Entry = str | Files


class Pair(NamedTuple):
    """One example and where it was read."""

    source: str
    target: str
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def empty(self) -> bool:
        return not self.source.strip() or not self.target.strip()


def read_pairs(entry: Entry, columns: Columns | None = None) -> Iterator[Pair]:
    """The pairs of one file, or of two files of lines, in order.

    The name decides the form: .tsv, .csv, .jsonl, .parquet, all but the last also packed; any other name is read
    as TSV. A blank line is a pair of empty texts; a line that cannot be a pair is a RegardError.
    """
    if isinstance(entry, Files):
        return _read_side_by_side(entry)
    chosen = (columns or Columns()).pick(numbered=is_numbered(entry))
    return (Pair(source, target, entry, line) for line, (source, target) in read_rows(entry, chosen))


def _read_side_by_side(entry: Files) -> Iterator[Pair]:
    sources, targets = read_lines(entry.source), read_lines(entry.target)
    lines = 0
    for lines, source in sources:
        following = next(targets, None)
        if following is None:
            total = lines + sum(1 for _ in sources)
            raise _unequal(entry, total, lines - 1)
        yield Pair(source, following[1], entry.source, lines)
    rest = sum(1 for _ in targets)
    if rest:
        raise _unequal(entry, lines, lines + rest)


def _unequal(entry: Files, sources: int, targets: int) -> RegardError:
    return RegardError(
        f"{entry.source} has {sources:,} lines and {entry.target} has {targets:,}; "
        "line n of one must be the partner of line n of the other, so find the missing lines"
    )


def expanded_entry(entry: Entry) -> list[Entry]:
    """The entries that an entry with * or ? in it stands for; sources and targets are matched in the order of names."""
    if not isinstance(entry, Files):
        return list(expanded(entry))
    sources, targets = expanded(entry.source), expanded(entry.target)
    if len(sources) != len(targets):
        raise RegardError(
            f"{entry.source} fits {len(sources)} files and {entry.target} fits {len(targets)}; "
            "each file of sources needs a file of targets"
        )
    return [Files(source=source, target=target) for source, target in zip(sources, targets, strict=True)]


def stamps(entry: Entry) -> list[tuple[str, int, int | str]]:
    """Place, size and time of the files of an entry."""
    return [stamp(name) for name in ([entry.source, entry.target] if isinstance(entry, Files) else [entry])]
