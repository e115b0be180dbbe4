"""The input is a question and a passage, the output is the span of the passage that answers the question.

    P(i, j) = P_start(i) P_end(j),   i ≤ j                     Devlin 2019, 4.2
    loss    −log P_start(i) − log P_end(j)                     scores   exact match and F1, as SQuAD counts

A passage that is too long for the model is read in parts that overlap, so that one of them holds any answer of up to
`max_answer` tokens. Where a part does not hold the answer, both ends are at the first token.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.files import read_json, read_lines, read_object
from regard.data.packing import without_packing
from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import Row
from regard.errors import RegardError
from regard.tasks.answer.reading import AnswerData, Part, Span, SpanReading, Spans
from regard.tasks.base import Codec, Looking, RunOptions, Score, Setting, Sight
from regard.tasks.parts import shares
from regard.tasks.rows import Choices, Rows, RowsTask
from regard.tasks.surfaces import Texts
from regard.tasks.together import together

ENDS = ("start", "end")  # the two outputs of the head for each token


@dataclass(frozen=True)
class Question:
    """A question, the passage, and each answer that counts as right with the character it begins at."""

    question: str
    passage: str
    answers: tuple[tuple[str, int], ...]
    place: str

    @property
    def key(self) -> str:
        return self.passage  # questions about one passage stay together


class FindAnswer(RowsTask[AnswerData, Question, Texts, Span]):
    """The task."""

    uses = "span"
    data = AnswerData
    surface = Spans()
    best = "f1"
    labels = ENDS

    def __init__(self, rows: Rows, *, stride: int = 128, max_answer: int = 30, impossible: bool = False) -> None:
        self.rows, self.reading = rows, SpanReading(rows, stride, max_answer, impossible)

    @classmethod
    def from_setting(cls, setting: Setting[AnswerData], codec: Codec) -> Self:
        data = setting.data
        rows = Rows.of(setting.model, codec, max_length=data.max_length)
        return cls(rows, stride=data.stride, max_answer=data.max_answer, impossible=data.impossible)

    @classmethod
    def examples(cls, name: str, data: AnswerData) -> Iterator[Question]:
        """SQuAD's JSON, or JSONL with context, question and answers: {"text": […], "answer_start": […]}, or answer and
        answer_start."""
        found = _from_lines(name) if without_packing(name).endswith(".jsonl") else _from_articles(name)
        for question in found:
            if not question.answers and not data.impossible:
                raise RegardError(
                    f"{question.place} has no answer; leave the question out, or set data.impossible=true to learn "
                    "when a passage does not answer a question"
                )
            yield question

    @classmethod
    def lines(cls, examples: list[Question]) -> Iterator[str]:
        return (Texts(example.question, example.passage).line for example in examples)

    @classmethod
    def labels_of(cls, examples: Sequence[Question]) -> tuple[str, ...]:
        return ENDS

    @classmethod
    def texts(cls, examples: Sequence[Question]) -> Iterator[str]:
        return (text for example in examples for text in (example.question, example.passage))

    def encode(self, examples: Sequence[Question]) -> list[Row]:
        found = []
        for example in examples:
            for part in self.reading.parts(example.question, example.passage):
                ends = _ends(part, *example.answers[0]) if example.answers else (part.nowhere, part.nowhere)
                found.append(Row(part.row.ids, part.row.segments, ends))
        return found

    def loss(self, model: nn.Module, batch: RowBatch, *, plain: bool = False) -> Tensor:
        """The cross-entropy of both ends, summed over the answers. Padding has no share in the softmax."""
        logits = model(batch.tokens, batch.lengths, batch.segments)  # (B, L, 2)
        padding = torch.arange(logits.shape[1], device=logits.device) >= batch.lengths.unsqueeze(1)
        logits = logits.masked_fill(padding.unsqueeze(-1), torch.finfo(logits.dtype).min)
        return F.cross_entropy(logits, batch.wanted, reduction="sum")

    def answer(self, model: nn.Module, asked: Sequence[Texts], options: RunOptions) -> list[Span]:
        """The most probable answer to each question."""
        return self.reading.answers(asked, lambda rows: self.rows.outputs(model, rows))

    def sight(self, model: nn.Module, asked: Texts, look: Looking) -> Sight:
        """What the model reads of a question and its passage, and the tokens it chooses as ends: both are BOS if there
        is no answer. Of a passage in several parts, the part with the best span is shown."""
        (found,) = self.reading.found([asked], lambda rows: self.rows.outputs(model, rows))
        answer, part, (begin, end) = found.span, found.part, found.ends
        places = [part.nowhere, *range(part.first, part.first + len(part.offsets))]
        chosen = [begin + 1, end + 1] if answer["answer"] else [0, 0]
        pieces = self.rows.tokenizer.pieces([part.row.ids[place] for place in places])
        choices = Choices(
            names=[[f"{piece}…" for piece in pieces], [f"…{piece}" for piece in pieces]],
            said=lambda _: answer["answer"],
            chosen=chosen,
            places=[places[each] for each in chosen],
        )
        return self.rows.sight(
            model,
            part.row,
            asked.title,
            lambda batch: model(batch.tokens, batch.lengths, batch.segments)[:, places].transpose(1, 2),
            choices=choices.forced(look.reference),
            notes=self._unread(asked, part),
        )

    def _unread(self, asked: Texts, part: Part) -> tuple[str, ...]:
        """What the viewer must know of a question and a passage that are not read whole."""
        question, passage = (len(ids) for ids in self.rows.tokenizer.encode([asked.first, asked.second or ""]))
        shown = len(part.offsets)
        of_question = f"only the first {part.read} of {question} tokens of the question are read"
        of_passage = f"the passage is read in parts: the part with the best answer has {shown} of its {passage} tokens"
        return (*([of_question] if part.read < question else []), *([of_passage] if shown < passage else []))

    def scores(self, model: nn.Module, examples: Sequence[Question]) -> dict[str, Score]:
        said = together(
            [Texts(each.question, each.passage) for each in examples],
            lambda some: [span["answer"] for span in self.answer(model, some, RunOptions())],
        )
        right = [[text for text, _ in each.answers] or [""] for each in examples]
        exact, f1 = (
            [max(score(a, b) for b in listed) for a, listed in zip(said, right, strict=True)]
            for score in (exact_match, word_f1)
        )
        how = f"percent over {len(right)} questions, articles and punctuation left out"
        both = {"f1": f1, "exact": exact}
        return {name: Score(100 * sum(each) / len(right), how, shares(each)) for name, each in both.items()}


def exact_match(said: str, right: str) -> float:
    return float(plain(said) == plain(right))


def word_f1(said: str, right: str) -> float:
    """F1 = 2 · common words / words of both. If one answer is empty, it is 1 if both are, and otherwise 0."""
    ours, theirs = plain(said).split(), plain(right).split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs))


def plain(text: str) -> str:
    """The text in lower case, without punctuation, articles and repeated spaces."""
    bare = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def _ends(part: Part, text: str, at: int) -> tuple[int, int]:
    """The first and the last token of an answer in the row; both are BOS if the part does not hold the whole answer."""
    inside = [n for n, (begin, end) in enumerate(part.offsets) if begin < at + len(text) and end > at]
    if not inside or part.offsets[inside[0]][0] > at or part.offsets[inside[-1]][1] < at + len(text):
        return part.nowhere, part.nowhere
    return part.first + inside[0], part.first + inside[-1]


def _from_articles(name: str) -> Iterator[Question]:
    try:
        for number, article in enumerate(read_json(name)["data"], start=1):
            for paragraph in article["paragraphs"]:
                for each in paragraph["qas"]:
                    place = f"{name}, article {number}, question {each.get('id', each['question'])!r}"
                    texts = [(answer["text"], answer["answer_start"]) for answer in each.get("answers", [])]
                    yield _checked(each["question"], paragraph["context"], texts, place)
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"{name} does not have the form of SQuAD's files ({error} is missing or has another type); check the file"
        ) from None


def _from_lines(name: str) -> Iterator[Question]:
    for number, line in read_lines(name):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        record = read_object(place, line, ("context", "question", "answer"))
        if missing := [key for key in ("context", "question") if not isinstance(record.get(key), str)]:
            raise RegardError(f"{place} has no text {missing[0]!r}; each line needs context, question and answers")
        yield _checked(record["question"], record["context"], _answers(record, place), place)


def _answers(record: Mapping[str, object], place: str) -> list[tuple[object, object]]:
    if "answers" in record:
        listed = record["answers"]
        texts, starts = (listed.get(key) if isinstance(listed, dict) else None for key in ("text", "answer_start"))
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise RegardError(f"{place}: answers must have text and answer_start, two lists of one length")
        return list(zip(texts, starts, strict=True))
    return [(record["answer"], record.get("answer_start", -1))] if record.get("answer") else []


def _checked(question: str, passage: str, answers: list[tuple[object, object]], place: str) -> Question:
    """A question with checked answers. An answer that is not at the stated place is searched for in the passage."""
    found = []
    for text, start in answers:
        if not isinstance(text, str):
            raise RegardError(f"{place}: an answer is {type(text).__name__} and must be a text")
        at = start if isinstance(start, int) and start >= 0 and passage.startswith(text, start) else passage.find(text)
        if at < 0 or not text:
            raise RegardError(
                f"{place}: the answer {text!r} is not in the passage; correct it, or leave the question out"
            )
        found.append((text, at))
    return Question(question, passage, tuple(found), place)
