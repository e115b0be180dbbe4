"""A question and a passage in, the place in the passage that answers it out.

    P(i, j) = P_start(i) P_end(j),   i ≤ j                     Devlin 2019, 4.2
    loss    −log P_start(i) − log P_end(j)                     scores   exact match and F1, as SQuAD counts

A passage too long for the model is read in parts that overlap; where a part does not hold the answer, both ends point
at the first token.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.framing import Framed
from regard.data.questions import Question
from regard.data.text_batches import TextBatch
from regard.errors import RegardError
from regard.tasks.reading import Reading, Sight
from regard.tasks.scores import Score

Asked = Sequence[str] | Mapping[str, str]  # (question, passage), or {"question": …, "context": …}


@dataclass(frozen=True)
class Part:
    """A question with a part of its passage: where that begins in the row, and the characters of each of its tokens."""

    row: Framed
    first: int
    offsets: Sequence[tuple[int, int]]


class FindAnswer:
    """The task."""

    best = "f1"

    def __init__(
        self,
        reading: Reading,
        labels: Sequence[str],
        *,
        smoothing: float = 0.0,
        stride: int = 128,
        max_answer: int = 30,
        impossible: bool = False,
    ) -> None:
        self.reading, self.labels, self.smoothing = reading, list(labels), smoothing
        self.stride, self.max_answer, self.impossible = stride, max_answer, impossible

    @staticmethod
    def labels_of(examples: Sequence[Question]) -> list[str]:  # noqa: ARG004 - the same whatever is asked
        return ["start", "end"]

    @staticmethod
    def texts(examples: Sequence[Question]) -> Iterator[str]:
        return (text for example in examples for text in (example.question, example.passage))

    def encode(self, examples: Sequence[Question]) -> list[Framed]:
        found = []
        for example in examples:
            for part in self._parts(example.question, example.passage):
                ends = _ends(part, *example.answers[0]) if example.answers else (0, 0)
                found.append(Framed(part.row.ids, part.row.segments, ends))
        return found

    def loss(self, model: Any, batch: TextBatch) -> Tensor:
        """Summed over both ends of every answer; padding is no place."""
        logits = model(batch.tokens, batch.lengths, batch.segments)  # (B, L, 2)
        padding = torch.arange(logits.shape[1], device=logits.device) >= batch.lengths.unsqueeze(1)
        logits = logits.masked_fill(padding.unsqueeze(-1), torch.finfo(logits.dtype).min)
        return F.cross_entropy(logits, batch.wanted, reduction="sum")

    def answer(self, model: Any, asked: Sequence[Asked]) -> list[dict[str, Any]]:
        """The most probable answer to each question: {"score", "start", "end", "answer"}."""
        questions = [_asked(each) for each in asked]
        parts = [(number, part) for number, each in enumerate(questions) for part in self._parts(*each)]
        best: list[dict[str, Any]] = [{"score": 0.0, "start": 0, "end": 0, "answer": ""} for _ in questions]
        nothing = [1.0] * len(questions)
        for batch, logits in self.reading.passes(model, [part.row for _, part in parts]):
            for line, row in enumerate(batch.rows):
                number, part = parts[row]
                score, none, begin, end = self._best(logits[line], part)
                nothing[number] = min(nothing[number], none)
                if part.offsets and score > best[number]["score"]:
                    text = questions[number][1]
                    begin, end = _stripped(text, part.offsets[begin][0], part.offsets[end][1])
                    best[number] = {"score": score, "start": begin, "end": end, "answer": text[begin:end]}
        if self.impossible:
            for number, none in enumerate(nothing):
                if none > best[number]["score"]:
                    best[number] = {"score": none, "start": 0, "end": 0, "answer": ""}
        return best

    def sight(self, model: Any, asked: Asked) -> Sight:
        """What the model reads of a question and its passage, of a long one the part that holds the answer, and which
        tokens it chooses as ends; the first token of all for no answer."""
        question, passage = _asked(asked)
        parts = list(self._parts(question, passage))
        answer = self.answer(model, [asked])[0]
        found = [
            (*self._best(logits[line], parts[row]), parts[row])
            for batch, logits in self.reading.passes(model, [part.row for part in parts])
            for line, row in enumerate(batch.rows)
        ]
        _, _, begin, end, part = max(found, key=lambda each: each[0])
        places = [0, *range(part.first, part.first + len(part.offsets))]
        chosen = [begin + 1, end + 1] if answer["answer"] else [0, 0]
        pieces = self.reading.tokenizer.pieces([part.row.ids[place] for place in places])
        return Sight(
            part.row,
            f"{question} | {passage}",
            lambda batch: model(batch.tokens, batch.lengths, batch.segments)[:, places].transpose(1, 2),
            names=[[f"{piece}…" for piece in pieces], [f"…{piece}" for piece in pieces]],
            chosen=chosen,
            places=[places[each] for each in chosen],
            said=lambda _: str(answer["answer"]),
        )

    def scores(self, model: Any, examples: Sequence[Question]) -> dict[str, Score]:
        said = [found["answer"] for found in self.answer(model, [(each.question, each.passage) for each in examples])]
        right = [[text for text, _ in each.answers] or [""] for each in examples]
        exact, f1 = (
            100 * sum(max(score(a, b) for b in listed) for a, listed in zip(said, right, strict=True)) / len(right)
            for score in (exact_match, word_f1)
        )
        how = f"percent over {len(right)} questions, articles and punctuation left out"
        return {"f1": Score(f1, how), "exact": Score(exact, how)}

    def shown(self, answer: Mapping[str, Any]) -> list[str]:
        return [f"{answer['answer']}\t{answer['score']:.4f}"]

    def _parts(self, question: str, passage: str) -> Iterator[Part]:
        """A question with all of its passage, part by part. Of a long question half of the room is read."""
        framing = self.reading.framing
        asked, read = self.reading.tokenizer.encode([question, passage])
        offsets = self.reading.tokenizer.offsets(passage)
        room = framing.maximum - framing.room_taken(pair=True)
        asked = asked[: room // 2]
        size = room - len(asked)
        first = len(asked) + framing.room_taken(pair=True) - 1
        for begin in range(0, max(len(read), 1), min(self.stride, size)):
            row = framing.frame(asked, read[begin : begin + size])
            yield Part(row, first, offsets[begin : begin + size])
            if begin + size >= len(read):
                return

    def _best(self, logits: Tensor, part: Part) -> tuple[float, float, int, int]:
        """Score and both ends of the best answer in a part, and the score of none; ends by token of the passage."""
        first, size = part.first, len(part.offsets)
        kept = torch.cat([logits[:1], logits[first : first + size]]).softmax(0)  # (1 + S, 2)
        start, end = kept[1:].unbind(-1)
        none = float(kept[0].prod())
        if not size:
            return 0.0, none, 0, 0
        spans = (start.unsqueeze(1) * end.unsqueeze(0)).triu().tril(self.max_answer - 1)
        place = int(spans.argmax())
        return float(spans.max()), none, place // size, place % size


def exact_match(said: str, right: str) -> float:
    return float(plain(said) == plain(right))


def word_f1(said: str, right: str) -> float:
    """2 · common words / all words of both; of empty answers, whether both are."""
    ours, theirs = plain(said).split(), plain(right).split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs))


def plain(text: str) -> str:
    """Lower case, without punctuation, articles and superfluous spaces."""
    bare = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def _ends(part: Part, text: str, at: int) -> tuple[int, int]:
    """First and last token of an answer in the row; the first token of all where the part does not hold it whole."""
    inside = [n for n, (begin, end) in enumerate(part.offsets) if begin < at + len(text) and end > at]
    if not inside or part.offsets[inside[0]][0] > at or part.offsets[inside[-1]][1] < at + len(text):
        return 0, 0
    return part.first + inside[0], part.first + inside[-1]


def _stripped(text: str, begin: int, end: int) -> tuple[int, int]:
    """The place without white space at its ends."""
    while begin < end and text[begin].isspace():
        begin += 1
    while end > begin and text[end - 1].isspace():
        end -= 1
    return begin, end


def _asked(asked: Asked) -> tuple[str, str]:
    if isinstance(asked, Mapping):
        return asked["question"], asked["context"]
    if isinstance(asked, str) or len(asked) != 2:
        raise RegardError("give a question and a passage, with a tab between on a line")
    return asked[0], asked[1]
