"""A text to a vector: the [data], the surface, and how answers are made. Torch is not imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field, PositiveInt

from regard.checking import Settings, check
from regard.data.files import Column
from regard.data.rows.framing import Framing
from regard.tasks.base import Codec, RunOptions, Surface
from regard.tasks.reading import Read, Reading, RowsData, TextRows, unit
from regard.tasks.surfaces import RUNTIME, text_of


class SimilarColumns(Settings):
    """Where a pair stands in a row: names, or numbers counted from 1.

    In TSV and CSV a name means that the first line is a header. Not given: the first two columns of a TSV, "text" and
    "pair" elsewhere. `score` is read from those files that have it.
    """

    text: PositiveInt | str | None = None
    pair: PositiveInt | str | None = None
    score: PositiveInt | str | None = None

    def pick(self, *, numbered: bool) -> list[Column]:
        text, pair = (1, 2) if numbered else ("text", "pair")
        return [self.text or text, self.pair or pair]


class SimilarData(RowsData):
    """[data] of embed."""

    same: float | None = Field(None, description="pairs with this score or a higher one mean the same")
    columns: SimilarColumns = Field(default_factory=SimilarColumns, description="which columns")


@dataclass(frozen=True)
class VectorReading(Reading[str, list[float]]):
    """The pooled vector of each text, divided by its length."""

    rows: TextRows

    output = "vector"

    def answers(self, asked: Sequence[str], read: Read) -> list[list[float]]:
        pooled = read(self.rows.frame(asked, [None] * len(asked)))
        return [unit(vector).tolist() for vector in pooled]


class Vector(Surface[str, list[float]]):
    """The input is a text, the output is its vector."""

    answers = "vectors"
    pipeline = "feature-extraction"
    options = RUNTIME

    def parse(self, line: str) -> str:
        return line

    def from_json(self, body: object) -> str:
        return text_of(body)

    def lines(self, answer: list[float], options: RunOptions) -> list[str]:
        return [" ".join(f"{number:.6g}" for number in answer)]

    def reading(self, data: Mapping[str, object], codec: Codec, framing: Framing) -> VectorReading:
        table = check(SimilarData, data, where="data")
        return VectorReading(TextRows(codec.texts().source, framing.at_most(table.max_length)))
