"""Pairs of texts that mean the same, and pairs with a score that says how nearly they do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from regard.data.files import Column, has_column, is_numbered, read_rows
from regard.data.labelled import TextData
from regard.errors import RegardError


class SimilarColumns(BaseModel):
    """Where a pair stands in a row: names, or numbers counted from 1.

    In TSV and CSV a name means that the first line is a header. Not given: the first two columns of a TSV, "text" and
    "pair" elsewhere. `score` is read from those files that have it.
    """

    model_config = ConfigDict(extra="forbid")

    text: PositiveInt | str | None = None
    pair: PositiveInt | str | None = None
    score: PositiveInt | str | None = None

    def pick(self, *, numbered: bool) -> list[Column]:
        text, pair = (1, 2) if numbered else ("text", "pair")
        return [self.text or text, self.pair or pair]


class SimilarData(TextData):
    """[data] of the task embed."""

    same: float | None = Field(None, description="the score from which on a pair that has one means the same")
    columns: SimilarColumns = Field(default_factory=SimilarColumns, description="which columns")


@dataclass(frozen=True)
class Similar:
    """Two texts: they mean the same if they have no score."""

    text: str
    pair: str
    score: float | None
    place: str

    @property
    def key(self) -> str:
        return self.text


def read_similar(name: str, data: SimilarData) -> Iterator[Similar]:
    """The pairs of a file; blank lines are none."""
    columns, score = data.columns.pick(numbered=is_numbered(name)), data.columns.score
    if score is not None and has_column(name, score):
        columns.append(score)
    for line, (text, pair, *scores) in read_rows(name, columns, numbers=True):
        place = f"{name}:{line}"
        if not text and not pair:
            continue
        if not text.strip() or not pair.strip():
            raise RegardError(f"{place} has one text and no other; fill it in, or leave the line out")
        yield Similar(text, pair, _number(scores[0], place) if scores else None, place)


def _number(cell: str, place: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RegardError(f"{place} has the score {cell!r}, which is no number; mend it, or choose with data.columns")
    return number
