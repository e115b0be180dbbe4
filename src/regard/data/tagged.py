"""Sentences of words with a tag each, as in CoNLL's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from regard.data.files import read_lines, read_object
from regard.data.labelled import TextData
from regard.errors import RegardError

BETWEEN = "-DOCSTART-"  # stands between documents


class TagColumns(BaseModel):
    """Where word and tag stand on a line: numbers counted from 1, the first and the last unless given.

    In JSONL, the keys of the list of words and of the list of tags: "words" and "tags" unless given.
    """

    model_config = ConfigDict(extra="forbid")

    word: PositiveInt | str | None = None
    tag: PositiveInt | str | None = None


class TaggedData(TextData):
    """[data] of the task tag."""

    columns: TagColumns = Field(default_factory=TagColumns, description="which columns")


@dataclass(frozen=True)
class Tagged:
    """A sentence: its words, and a tag for each, where B- begins what is named and I- goes on with it."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    place: str

    @property
    def key(self) -> str:
        return " ".join(self.words)


def read_tagged(name: str, data: TaggedData) -> Iterator[Tagged]:
    """The sentences of a file: .jsonl, or a word and its tag to a line and a blank line after each sentence."""
    if name.lower().removesuffix(".gz").endswith(".jsonl"):
        return _read_objects(name, data.columns)
    return _read_conll(name, data.columns)


def begun(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags in which everything named begins with B-, whatever way of writing them was used (IOB1 or IOB2)."""
    found, before = [], "O"
    for tag in tags:
        begins = tag.startswith("I-") and before[2:] != tag[2:]
        found.append(f"B-{tag[2:]}" if begins else tag)
        before = tag
    return tuple(found)


def _read_conll(name: str, columns: TagColumns) -> Iterator[Tagged]:
    word, tag = columns.word or 1, columns.tag or 0
    if isinstance(word, str) or isinstance(tag, str):
        raise RegardError(f"data.columns gives a name, but {name} has no header; give numbers, counted from 1")
    words: list[str] = []
    tags: list[str] = []
    first = 1
    for number, line in read_lines(name):
        cells = line.split()
        if not cells or cells[0] == BETWEEN:
            if words:
                yield Tagged(tuple(words), begun(tags), f"{name}:{first}")
            words, tags, first = [], [], number + 1
            continue
        if len(cells) < max(word, tag, 2):
            raise RegardError(f"{name}:{number} has {len(cells)} columns; each line needs a word and its tag")
        words.append(cells[word - 1])
        tags.append(cells[tag - 1])
    if words:
        yield Tagged(tuple(words), begun(tags), f"{name}:{first}")


def _read_objects(name: str, columns: TagColumns) -> Iterator[Tagged]:
    keys = (str(columns.word or "words"), str(columns.tag or "tags"))
    for number, line in read_lines(name):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        record = read_object(place, line, keys)
        words, tags = (record.get(key) for key in keys)
        if not _texts(words) or not _texts(tags) or len(words) != len(tags):
            raise RegardError(f"{place} needs {keys[0]!r} and {keys[1]!r}: two lists of text, one as long as the other")
        if words:
            yield Tagged(tuple(words), begun(tags), place)


def _texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
