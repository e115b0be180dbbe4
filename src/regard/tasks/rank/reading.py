"""A query and texts to the texts in order: the [data], the surface, and how answers are made. Torch is not imported
here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypedDict

import numpy
from pydantic import Field, PositiveInt

from regard.checking import Settings, check
from regard.data.files import Column
from regard.data.rows.framing import Framing
from regard.errors import RegardError
from regard.tasks.base import Codec, RunOptions, Surface
from regard.tasks.reading import Read, Reading, RowsData, TextRows, softmax, unit
from regard.tasks.surfaces import RUNTIME

RELEVANCE = "relevance"  # the only output of a head on both texts


class RankColumns(Settings):
    """Where an example stands in a row: names, or numbers counted from 1.

    In TSV and CSV a name means that the first line is a header. Not given: the first three columns of a TSV, "query",
    "text" and "label" elsewhere.
    """

    query: PositiveInt | str | None = None
    text: PositiveInt | str | None = None
    label: PositiveInt | str | None = None

    def pick(self, *, numbered: bool) -> list[Column]:
        query, text, label = (1, 2, 3) if numbered else ("query", "text", "label")
        return [self.query or query, self.text or text, self.label or label]


class RankData(RowsData):
    """[data] of rank."""

    read: Literal["together", "apart"] = Field(
        "together", description="query and text are read as a pair, or apart and their vectors compared"
    )
    relevant: float = Field(1.0, description="a text with this label or a higher one is relevant")
    vector: PositiveInt = Field(128, description="width of the vectors that are compared, if read apart")
    columns: RankColumns = Field(default_factory=RankColumns, description="which columns")


class Query(NamedTuple):
    """A query and the texts to be ordered."""

    query: str
    texts: tuple[str, ...]


class Ranked(TypedDict):
    """A text, its score, and its number among the texts that were given, from 0."""

    text: str
    score: float
    index: int


@dataclass(frozen=True)
class RankReading(Reading[Query, list[Ranked]]):
    """The texts of each query by score: σ(y) of both texts together, or the product of the vectors of each."""

    rows: TextRows
    apart: bool = False  # whether each text is read alone

    output = "text"

    def answers(self, asked: Sequence[Query], read: Read) -> list[list[Ranked]]:
        scores = iter(self.judged([(each.query, text) for each in asked for text in each.texts], read))
        found = []
        for each in asked:
            ranked: list[Ranked] = [
                {"text": text, "score": next(scores), "index": number} for number, text in enumerate(each.texts)
            ]
            found.append(sorted(ranked, key=lambda one: -one["score"]))
        return found

    def judged(self, pairs: Sequence[tuple[str, str]], read: Read) -> list[float]:
        """s(q, t) of each pair."""
        if self.apart:
            texts = list(dict.fromkeys(text for pair in pairs for text in pair))
            outputs = read(self.rows.frame(texts, [None] * len(texts)))
            vectors = {text: unit(output) for text, output in zip(texts, outputs, strict=True)}  # (D,) each
            return [float(vectors[query] @ vectors[text]) for query, text in pairs]
        outputs = read(self.rows.frame([query for query, _ in pairs], [text for _, text in pairs]))
        return [float(softmax(numpy.pad(relevance, (1, 0)))[1]) for relevance in outputs]  # σ(s) is softmax(0, s)


class Ranking(Surface[Query, list[Ranked]]):
    """The input is a query and texts, the output is the texts with their scores, best first."""

    answers = "texts in order"
    pipeline = "text-ranking"
    example = "$'a query\\tone text\\tanother text'"
    two_texts = True
    between = ""
    options = RUNTIME

    def parse(self, line: str) -> Query:
        query, *texts = line.split("\t")
        return self._checked(query, texts)

    def from_json(self, body: object) -> Query:
        if isinstance(body, Mapping):
            return self._checked(body.get("query"), body.get("texts"))
        if isinstance(body, list | tuple) and len(body) == 2:
            return self._checked(*body)
        raise RegardError('give {"query": "…", "texts": ["…", "…"]}, or a query and a list of texts')

    def lines(self, answer: list[Ranked], options: RunOptions) -> list[str]:
        return ["\n".join(f"{each['text']}\t{each['score']:.4f}" for each in answer)]

    def reading(self, data: Mapping[str, object], codec: Codec, framing: Framing) -> RankReading:
        table = check(RankData, data, where="data")
        rows = TextRows(codec.texts().source, framing.at_most(table.max_length))
        return RankReading(rows, apart=codec.labels != (RELEVANCE,))

    def _checked(self, query: object, texts: object) -> Query:
        listed = [texts] if isinstance(texts, str) else texts
        if not isinstance(query, str) or not isinstance(listed, list | tuple) or not listed:
            raise RegardError("give a query and one or more texts, with tabs between them on a line")
        if not all(isinstance(text, str) for text in listed):
            raise RegardError("the texts of a query must be a list of texts")
        return Query(query, tuple(listed))
