"""Texts with a label, or pairs of texts with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from regard.data.examples import hold_out
from regard.data.files import Column, Pair, is_numbered, read_rows
from regard.errors import RegardError


class TextData(BaseModel):
    """What the [data] of every task that reads texts has."""

    model_config = ConfigDict(extra="forbid")

    train: str | list[str] | None = Field(None, description="a file, or a list of files")
    valid: str | list[str] | None = Field(None, description="as train; without it, examples are held out of train")
    test: str | list[str] | None = Field(None, description="as train")
    max_length: PositiveInt = Field(128, description="tokens that are read, those around the text included")
    hold_out: PositiveInt | float | None = Field(
        None, description="examples held out: a number or a share; 2 % if none"
    )


class TextColumns(BaseModel):
    """Where an example stands in a row: names, or numbers counted from 1.

    In TSV and CSV a name means that the first line is a header. Not given: the first two columns of a TSV, "text" and
    "label" elsewhere. With `pair`, examples are pairs of texts.
    """

    model_config = ConfigDict(extra="forbid")

    text: PositiveInt | str | None = None
    pair: PositiveInt | str | None = None
    label: PositiveInt | str | None = None

    def pick(self, *, numbered: bool) -> list[Column]:
        text, label = (1, 2) if numbered else ("text", "label")
        return [self.text or text, self.label or label, *([self.pair] if self.pair else [])]


class LabelledData(TextData):
    """[data] of the task classify."""

    columns: TextColumns = Field(default_factory=TextColumns, description="which columns")


class Example(Protocol):
    """What can be learned from, and where it was read; `key` is the same for examples that belong together."""

    @property
    def key(self) -> str: ...
    @property
    def place(self) -> str: ...


@dataclass(frozen=True)
class Labelled:
    """A text, or two, and their label."""

    text: str
    pair: str | None
    label: str
    place: str

    @property
    def key(self) -> str:
        return self.text


def read_labelled(name: str, data: LabelledData) -> Iterator[Labelled]:
    """The examples of a file; blank lines are none."""
    for line, (text, label, *pair) in read_rows(name, data.columns.pick(numbered=is_numbered(name)), numbers=True):
        place = f"{name}:{line}"
        if not text and not label:
            continue
        if not text.strip() or not label.strip():
            missing = "text" if not text.strip() else "label"
            raise RegardError(f"{place} has no {missing}; fill it in, or leave the line out")
        yield Labelled(text, pair[0] if pair else None, label.strip(), place)


Kind = TypeVar("Kind", bound=Example)


@dataclass(frozen=True)
class Sets(Generic[Kind]):
    """The examples of a recipe, in memory; a test set only if one was named."""

    train: list[Kind]
    valid: list[Kind]
    test: list[Kind] | None


Read = Callable[[str], Iterator[Kind]]


def read_sets(data: TextData, read: Read[Kind], *, seed: int) -> Sets[Kind]:
    """All that [data] names; without `valid`, some of `train` is held out, the same for the same seed."""
    train = read_all(data.train, read, key="data.train")
    test = read_all(data.test, read, key="data.test") if data.test else None
    if data.valid:
        return Sets(train, read_all(data.valid, read, key="data.valid"), test)
    pairs = [Pair(example.key, example.place, example.place, 0) for example in train]
    apart = hold_out(pairs, amount=data.hold_out, seed=seed)
    inside = [pair in apart for pair in pairs]
    kept = [example for example, held in zip(train, inside, strict=True) if not held]
    return Sets(kept, [example for example, held in zip(train, inside, strict=True) if held], test)


def read_all(entry: str | Sequence[str] | None, read: Read[Kind], *, key: str) -> list[Kind]:
    """The examples of one key of [data]."""
    if not entry:
        raise RegardError(f"{key} is missing; name a file, such as --set {key}=my.tsv")
    found = [example for name in ([entry] if isinstance(entry, str) else entry) for example in read(name)]
    if not found:
        raise RegardError(f"{key} = {entry!r} has no examples; name another file")
    return found


def label_numbers(labels: Sequence[str], wanted: Sequence[str], place: str) -> list[int]:
    """The number of each label; one that was not learned is an error that names it."""
    known = {label: number for number, label in enumerate(labels)}
    for label in wanted:
        if label not in known:
            shown = ", ".join(labels[:20]) + (", …" if len(labels) > 20 else "")
            raise RegardError(f"{place} has the label {label!r}, which data.train has not; it has {shown}")
    return [known[label] for label in wanted]
