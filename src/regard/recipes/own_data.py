"""Files of one's own: which recipe fits a data file or a folder, and which of its columns is which.

A bundled recipe with `[data.columns] auto = true` finds its columns in data.train: by a header (or the keys of JSONL,
the names of Parquet) if it has words that are known, otherwise by position. `regard train my.tsv` chooses the recipe.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean

from regard.data.files import Column, expanded, is_numbered, read_lines, read_object
from regard.data.pictures.sources import holds_pictures, parts_of
from regard.data.remote import is_url
from regard.data.series.dates import is_date
from regard.errors import RegardError, listed

LOOKED_AT = 2000  # lines at the beginning of a file
FEW = 10  # labels: a column has each of its values this many times or more, on the average
SHORT = 30  # characters, on the average: a label is shorter

# the names that a column may have, by what it holds
KNOWN: Mapping[str, tuple[str, ...]] = {
    "source": ("source", "src", "input"),
    "target": ("target", "tgt", "output", "translation"),
    "word": ("words", "tokens"),
    "tag": ("tags", "ner_tags", "pos_tags", "labels"),
    "text": (
        *("text", "sentence", "review", "content", "document", "comment", "message", "tweet", "body", "utterance"),
        *("text1", "sentence1", "sentence_a", "premise"),
    ),
    "pair": ("pair", "text_pair", "text2", "sentence2", "sentence_b", "hypothesis"),
    "label": ("label", "class", "category", "target", "sentiment", "intent", "topic", "polarity", "rating"),
    "set": ("set", "elements", "items", "bag", "points", "numbers", "values"),
}
OPTIONAL = {"pair"}
RECIPES = {"pairs": ("source", "target"), "tags": ("word", "tag"), "labels": ("text", "label")}
WRITING = "shakespeare"
SEEING = "pictures"
SETS = "sets"
SERIES = "series"


@dataclass(frozen=True)
class Sample:
    """The beginning of a file: rows of cells and, where the file says them, the names of the columns."""

    rows: list[list[str]]
    names: list[str]  # of keys, or the cells of the first line, which need not be a header
    stated: bool  # whether the names are certain, as those of keys are
    in_sentences: bool = False  # whether each line holds a word, with a blank line after each sentence
    lists: tuple[str, ...] = ()  # the columns that hold lists

    def find(self, role: str) -> Column | None:
        """The column whose name is known for a role."""
        lower = [name.strip().lower() for name in self.names]
        return next((self.names[lower.index(word)] for word in KNOWN[role] if word in lower), None)

    def named(self, roles: Sequence[str]) -> dict[str, Column]:
        """The columns of these roles by name, if every one that must be there is, each another."""
        found = {role: name for role in roles if (name := self.find(role)) is not None}
        whole = all(role in found for role in roles if role not in OPTIONAL)
        return found if whole and len(set(found.values())) == len(found) else {}

    def a_set(self) -> dict[str, Column]:
        """The column of lists and that of their label, if each can be told; lists of words with tags are no sets."""
        known = self.find("set") if self.find("set") in self.lists else None
        sets = [known] if known is not None else [name for name in self.lists if name != self.find("label")]
        others = [name for name in self.names if name not in sets]
        label = self.find("label") if self.find("label") in others else others[0] if len(others) == 1 else None
        return {"set": sets[0], "label": label} if len(sets) == 1 and label is not None else {}

    @property
    def width(self) -> int:
        """How many columns all rows have."""
        return min(map(len, self.rows), default=0)

    def values(self, column: int) -> list[str]:
        return [row[column] for row in self.rows]

    def label_column(self) -> int | None:
        """The column with few different values, each of them short: a label, if there is one."""
        counts = {column: len(set(self.values(column))) for column in range(self.width)}
        few = [
            column
            for column, count in counts.items()
            if _are_few(count, len(self.rows)) and mean(map(len, self.values(column))) < SHORT
        ]
        return min(few, key=lambda column: (counts[column], -column), default=None)

    def time_column(self) -> str | None:
        """The column of a table of series that holds times: by the names of its columns, or by what they hold."""
        if {"ds", "y"} <= set(self.names):
            return "ds"
        if self.stated or self.width < 2 or len(self.rows) < 3:
            return None
        columns = {name: self.values(at)[1:] for at, name in enumerate(self.names[: self.width])}
        dated = [name for name, cells in columns.items() if sum(map(is_date, cells)) > len(cells) / 2]
        numbers = [name for name, cells in columns.items() if name not in dated and _are_numbers(cells)]
        return dated[0] if dated and numbers else None

    def longest_column(self, *, except_for: int) -> int:
        others = [column for column in range(self.width) if column != except_for]
        return max(others, key=lambda column: mean(map(len, self.values(column))))


def recipe_for(name: str) -> tuple[str, str]:
    """The bundled recipe that fits a file or a folder, and why."""
    if why := holds_pictures(name):
        return SEEING, why
    return recipe_of(look_at(name), name)


def recipe_of(sample: Sample, name: str) -> tuple[str, str]:
    """The bundled recipe that fits a file with this beginning, and why."""
    if sample.lists and not sample.named(RECIPES["tags"]) and (found := sample.a_set()):
        return SETS, f"its column {found['set']!r} holds lists"
    for recipe, roles in RECIPES.items():
        if found := sample.named(roles):
            return recipe, f"it has the columns {' and '.join(map(repr, found.values()))}"
    if (time := sample.time_column()) is not None:
        return SERIES, f"its column {time!r} holds times, and others hold numbers"
    if sample.stated:
        raise RegardError(
            f"no recipe fits {name}: its columns are {listed(sample.names)}; choose a recipe that `regard recipes` "
            "lists, and set data.columns"
        )
    if not is_numbered(name) and len(sample.names) == 1 and ";" in sample.names[0]:
        raise RegardError(f"{name} has ';' between its columns; put commas there, and points into numbers")
    if sample.in_sentences:
        return "tags", "each line has a word and its tag, and blank lines stand between sentences"
    if sample.width < 2:
        return WRITING, "it is plain text without columns"
    label = sample.label_column()
    if label is not None:
        many = len(set(sample.values(label)))
        return "labels", f"column {label + 1} has {many} different values in {len(sample.rows):,} lines"
    return "pairs", "it has two columns of text"


def entries_for(name: str) -> dict[str, str]:
    """The entries of [data] that a file or a folder of one's own is, by key."""
    return parts_of(name) if holds_pictures(name) else {"train": name}


def find_columns(entry: object, roles: Sequence[str]) -> tuple[dict[str, Column], str]:
    """The columns of these roles in the first file of an entry of [data], and a sentence that says how they were found.

    Nothing is found in what is not a file; that is reported when it is read.
    """
    named = entry[0] if isinstance(entry, list) and entry else entry
    name = _first_file(named) if isinstance(named, str) else None
    if name is None:
        return {}, ""
    return columns_of(look_at(name), roles)


def columns_of(sample: Sample, roles: Sequence[str]) -> tuple[dict[str, Column], str]:
    """The columns of these roles in a file with this beginning, and how they were found."""
    if found := sample.a_set() if "set" in roles else sample.named(roles):
        return found, _told(found, "from the header")
    if sample.in_sentences or sample.stated or sample.width < 2:
        return {}, ""  # the defaults of the task, or its error
    if "label" not in roles:
        return _by_position(dict(zip(roles, (1, 2), strict=False)))
    header, known, label = sample.rows[0], sample.find("label"), sample.label_column()
    if known is not None:
        label = header.index(str(known))
    if label is None:
        return _by_position({"text": 1, "label": 2})
    text = sample.longest_column(except_for=label)
    if known is None and header[label] in sample.values(label)[1:]:
        return _by_position({"text": text + 1, "label": label + 1})
    # the label of the first line never comes again: that line is a header
    named = {"text": sample.find("text") or header[text], "pair": sample.find("pair"), "label": header[label]}
    columns = {role: column for role, column in named.items() if column is not None}
    return columns, _told(columns, "from the header")


def _by_position(columns: dict[str, Column]) -> tuple[dict[str, Column], str]:
    return columns, _told(columns, "by position: no header names them")


def look_at(name: str) -> Sample:
    """The beginning of a file."""
    if name.lower().endswith(".parquet"):
        import pyarrow.parquet  # slow to import

        try:
            schema = pyarrow.parquet.read_schema(Path(name).expanduser())
            lists = tuple(
                field.name
                for field in schema
                if pyarrow.types.is_nested(field.type) and not pyarrow.types.is_struct(field.type)
            )
            return Sample([], schema.names, stated=True, lists=lists)
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise RegardError(f"{name} is not a sound Parquet file ({reason}); fetch or write it again") from None
    return sample_of(name, [line for _, line in islice(read_lines(name), LOOKED_AT)])


def sample_of(name: str, lines: Sequence[str]) -> Sample:
    """The beginning of a text file that has these lines."""
    full = [line for line in lines if line.strip()]
    if not is_numbered(name) and ".jsonl" in name.lower():
        first = read_object(f"{name}:1", full[0], ("text",)) if full else {}
        lists = tuple(key for key, value in first.items() if isinstance(value, list))
        return Sample([], list(first), stated=True, lists=lists)
    rows = [line.split("\t") for line in full] if is_numbered(name) else _csv_rows(name, full)
    cells = [line.split() for line in full]
    return Sample(rows, rows[0] if rows else [], stated=False, in_sentences=_in_sentences(lines, cells))


def _csv_rows(name: str, lines: Sequence[str]) -> list[list[str]]:
    try:
        return list(csv.reader(f"{line}\n" for line in lines))
    except csv.Error as error:
        raise RegardError(f"{name} is not CSV ({error}); check its quotes") from None


def _in_sentences(lines: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Whether lines are words with their tags: as many cells on each, blank lines between, tags from a small set."""
    widths = {len(row) for row in cells if row and row[0] != "-DOCSTART-"}
    blank = any(not line.strip() for line in lines[:-1])
    tags = {row[-1] for row in cells}
    return blank and len(widths) == 1 and min(widths) >= 2 and _are_few(len(tags), len(cells))


def _are_few(different: int, lines: int) -> bool:
    """Whether values are so few that they are labels; two are, in however few lines."""
    return different < lines and different <= max(lines // FEW, 2)


def _are_numbers(cells: Sequence[str]) -> bool:
    """Whether most cells hold numbers; some may be empty."""
    return sum(cell.strip().replace(".", "", 1).lstrip("+-").isdigit() for cell in cells) > len(cells) / 2


def _told(columns: Mapping[str, Column], how: str) -> str:
    return f"columns: {', '.join(f'{role} = {column!r}' for role, column in columns.items())} ({how})"


def _first_file(name: str) -> str | None:
    """The first file that a name stands for, if there is one."""
    try:
        first = expanded(name)[0]
        return first if is_url(first) or Path(first).expanduser().is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None
