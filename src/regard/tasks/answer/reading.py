"""A question and a passage to a span: the [data], the surface, and how answers are made. Torch is not imported here.

L length  S tokens of a part of a passage
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy
from pydantic import Field, PositiveInt

from regard.checking import check
from regard.data.rows.framing import Framing, Row
from regard.errors import CutWarning, RegardError
from regard.tasks.base import Codec, RunOptions, Surface
from regard.tasks.reading import Numbers, Read, Reading, RowsData, TextRows, softmax
from regard.tasks.surfaces import RUNTIME, Texts, one_or_two, texts_of


class AnswerData(RowsData):
    """[data] of answer."""

    max_length: PositiveInt = Field(384, description="longest input in tokens: the question and a part of the passage")
    stride: PositiveInt = Field(
        128, description="most tokens from the beginning of one part of a passage to that of the next"
    )
    max_answer: PositiveInt = Field(30, description="longest answer in tokens")
    impossible: bool = Field(False, description="whether a passage may have no answer, which then is empty")


class Span(TypedDict):
    """An answer, its place in the characters of the passage, and its probability."""

    score: float
    start: int
    end: int
    answer: str


@dataclass(frozen=True)
class Part:
    """A question with a part of its passage: where that begins in the row, the place that is chosen if there is no
    answer (BOS), how many tokens of the question are read, and the characters of each token of the passage."""

    row: Row
    first: int
    nowhere: int
    read: int
    offsets: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Found:
    """The answer to a question, the part of its passage with the best span, and the ends of that span, by token."""

    span: Span
    part: Part
    ends: tuple[int, int]


@dataclass(frozen=True)
class SpanReading(Reading[Texts, Span]):
    """The most probable span of each passage, by softmax(y) over the tokens of each part, for both ends."""

    rows: TextRows
    stride: int = 128
    max_answer: int = 30
    impossible: bool = False

    output = "tokens"

    def answers(self, asked: Sequence[Texts], read: Read) -> list[Span]:
        return [each.span for each in self.found(asked, read)]

    def found(self, asked: Sequence[Texts], read: Read) -> list[Found]:
        """The best span of each passage, over all of its parts."""
        every = [list(self.parts(each.first, each.second or "")) for each in asked]
        outputs = iter(read([part.row for parts in every for part in parts]))
        return [
            self._of_parts(each.second or "", parts, [next(outputs) for _ in parts])
            for each, parts in zip(asked, every, strict=True)
        ]

    def _of_parts(self, passage: str, parts: Sequence[Part], outputs: Sequence[Numbers]) -> Found:
        """The best span of a passage. If there may be no answer, the part where that is least probable decides."""
        judged = [self._best(logits, part) for logits, part in zip(outputs, parts, strict=True)]
        best = max(range(len(parts)), key=lambda number: judged[number][0])
        part, (score, _, begin, end) = parts[best], judged[best]
        none = min(nothing for _, nothing, _, _ in judged)
        span: Span = {"score": score, "start": 0, "end": 0, "answer": ""}
        if self.impossible and none > score:
            span["score"] = none
        elif part.offsets:
            start, after = _stripped(passage, part.offsets[begin][0], part.offsets[end][1])
            span = {"score": score, "start": start, "end": after, "answer": passage[start:after]}
        return Found(span, part, (begin, end))

    def _best(self, logits: Numbers, part: Part) -> tuple[float, float, int, int]:
        """The score of the best span in a part, the score of no answer, and both ends of the span, by token.

        logits: (L, 2)
        """
        first, size = part.first, len(part.offsets)
        shares = softmax(logits[[part.nowhere, *range(first, first + size)]].T)  # (2, 1 + S)
        none = float(shares[:, 0].prod())
        if not size:
            return 0.0, none, 0, 0
        start, end = shares[:, 1:]
        spans = numpy.tril(numpy.triu(numpy.outer(start, end)), self.max_answer - 1)  # (S, S)
        place = int(spans.argmax())
        return float(spans.max()), none, place // size, place % size

    def parts(self, question: str, passage: str) -> Iterator[Part]:
        """A question with all of its passage, part by part. A question that takes more than half of the room is cut.

        Parts of `size` tokens begin every min(stride, size − max_answer) tokens, so that two of them overlap by
        `max_answer` tokens or more; where that leaves nothing, they begin at every token.
        """
        framing = self.rows.framing
        asked, read = self.rows.tokenizer.encode([question, passage])
        offsets = self.rows.tokenizer.offsets(passage)
        room = framing.maximum - framing.room_taken(pair=True)
        if len(asked) > room // 2:
            note = f"a question has more than {room // 2} tokens, and only its beginning is read"
            warnings.warn(note, CutWarning, stacklevel=2)
        asked = asked[: room // 2]
        size = room - len(asked)
        for begin in range(0, max(len(read), 1), min(self.stride, max(size - self.max_answer, 1))):
            row, first = framing.ask(asked, read[begin : begin + size])
            yield Part(row, first, framing.place_of_bos(row), len(asked), offsets[begin : begin + size])
            if begin + size >= len(read):
                return


class Spans(Surface[Texts, Span]):
    """The input is a question and a passage, the output is the answer, a span of the passage."""

    answers = "a part of a passage"
    pipeline = "question-answering"
    example = "$'a question\\ta passage'"
    two_texts = True
    options = RUNTIME

    def parse(self, line: str) -> Texts:
        return self._both(one_or_two(line))

    def from_json(self, body: object) -> Texts:
        return self._both(texts_of(body, keys=("question", "context")))

    def lines(self, answer: Span, options: RunOptions) -> list[str]:
        return [f"{answer['answer']}\t{answer['score']:.4f}"]

    def reading(self, data: Mapping[str, object], codec: Codec, framing: Framing) -> SpanReading:
        table = check(AnswerData, data, where="data")
        rows = TextRows(codec.texts().source, framing.at_most(table.max_length))
        return SpanReading(rows, table.stride, table.max_answer, table.impossible)

    def _both(self, texts: Texts) -> Texts:
        if texts.second is None:
            raise RegardError("give a question and a passage, with a tab between them on a line")
        return texts


def _stripped(text: str, begin: int, end: int) -> tuple[int, int]:
    """Beginning and end of a span without the white space at its ends."""
    while begin < end and text[begin].isspace():
        begin += 1
    while end > begin and text[end - 1].isspace():
        end -= 1
    return begin, end
