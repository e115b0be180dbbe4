"""Questions about a passage, and the answers that stand in it, as in SQuAD's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, PositiveInt

from regard.data.files import read_json, read_lines, read_object
from regard.data.labelled import TextData
from regard.errors import RegardError


class AnsweredData(TextData):
    """[data] of the task answer."""

    max_length: PositiveInt = Field(
        384, description="tokens that are read at a time: question and a part of the passage"
    )
    stride: PositiveInt = Field(
        128, description="tokens from the beginning of one part of a passage to that of the next"
    )
    max_answer: PositiveInt = Field(30, description="tokens of an answer at most")
    impossible: bool = Field(False, description="whether a passage may have no answer, which then is empty")


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


def read_questions(name: str, data: AnsweredData) -> Iterator[Question]:
    """SQuAD's JSON, or JSONL with context, question and answers: {"text": […], "answer_start": […]}, or answer and
    answer_start."""
    found = _from_lines(name) if name.lower().removesuffix(".gz").endswith(".jsonl") else _from_articles(name)
    for question in found:
        if not question.answers and not data.impossible:
            raise RegardError(
                f"{question.place} has no answer; leave the question out, or set data.impossible=true to learn "
                "when a passage does not say"
            )
        yield question


def _from_articles(name: str) -> Iterator[Question]:
    try:
        for number, article in enumerate(read_json(name)["data"], start=1):
            for paragraph in article["paragraphs"]:
                for each in paragraph["qas"]:
                    place = f"{name}, article {number}, question {each.get('id', each['question'])!r}"
                    texts = [(answer["text"], answer["answer_start"]) for answer in each.get("answers", [])]
                    yield _checked(each["question"], paragraph["context"], texts, place)
    except (KeyError, TypeError) as error:
        raise RegardError(f"{name} is not as SQuAD's files are ({error} is missing or something else)") from None


def _from_lines(name: str) -> Iterator[Question]:
    for number, line in read_lines(name):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        record = read_object(place, line, ("context", "question", "answer"))
        if missing := [key for key in ("context", "question") if not isinstance(record.get(key), str)]:
            raise RegardError(f"{place} has no text {missing[0]!r}; each line needs context, question and answers")
        yield _checked(record["question"], record["context"], _answers(record, place), place)


def _answers(record: Mapping[str, Any], place: str) -> list[tuple[str, Any]]:
    if "answers" in record:
        listed = record["answers"]
        try:
            return list(zip(listed["text"], listed["answer_start"], strict=True))
        except (KeyError, TypeError, ValueError):
            raise RegardError(f"{place}: answers must have text and answer_start, two lists of one length") from None
    return [(record["answer"], record.get("answer_start", -1))] if record.get("answer") else []


def _checked(question: str, passage: str, answers: list[tuple[str, Any]], place: str) -> Question:
    """A question whose answers stand where they are said to; one that stands elsewhere is taken from there."""
    found = []
    for text, start in answers:
        at = start if isinstance(start, int) and start >= 0 and passage.startswith(text, start) else passage.find(text)
        if at < 0 or not text:
            raise RegardError(f"{place}: the answer {text!r} is not in the passage; mend it, or leave the question out")
        found.append((text, at))
    return Question(question, passage, tuple(found), place)
