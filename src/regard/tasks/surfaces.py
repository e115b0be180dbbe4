"""Surfaces that several tasks share. Torch is not imported here.

TextsOut      texts out, best first: caption
TextToTexts   a text in, texts out, best first: translate, transcribe
Prompt        the beginning of a text in, continuations out: write
Label         a label with its probability: classify, see
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypedDict

from pydantic import JsonValue

from regard.errors import RegardError
from regard.tasks.base import AskedT, RunOptions, Surface

SEARCH = frozenset(
    ["beam", "n_best", "sample", "samples", "temperature", "top_k", "top_p", "seed", "max_length", "no_repeat_ngram"]
)  # options of every search

RUNTIME = frozenset({"runtime", "compute_type"})  # options of tasks that are also answered without torch


@dataclass(frozen=True)
class Answer:
    """A text, the score it was ranked by, its tokens with log p of each, and what else was asked for."""

    text: str
    score: float
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    alignment: tuple[tuple[int, int], ...] | None = None  # (source, target) word numbers, from 0
    pieces: tuple[str, ...] | None = None  # the names of the tokens
    truncated: bool = False  # whether it ended at `max_length` tokens, and not by itself


NOTHING = Answer("", 0.0, (), ())  # the answer to an empty text


class TextsOut(Surface[AskedT, list[Answer]], Generic[AskedT]):
    """Texts out, best first, whatever comes in."""

    answers = "texts"

    def to_json(self, answer: list[Answer]) -> object:
        return [_as_json(each) for each in answer]

    def lines(self, answer: list[Answer], options: RunOptions) -> list[str]:
        return ["\t".join(_columns(each, options)) for each in answer]

    def brief(self, answer: list[Answer]) -> str:
        return answer[0].text

    def tokens(self, answer: list[Answer]) -> int:
        return len(answer[0].tokens) + 1


class TextToTexts(TextsOut[str]):
    """A text in, texts out, best first."""

    pipeline = "translation"
    options = SEARCH | RUNTIME | {"prefix", "alignment", "replace_unknown"}
    splits = True

    def parse(self, line: str) -> str:
        return line

    def from_json(self, body: object) -> str:
        return text_of(body)


class Prompt(TextToTexts):
    """The beginning of a text in, continuations out. A continuation may have several lines."""

    pipeline = "text-generation"
    options = SEARCH | RUNTIME | {"stop"}
    splits = False
    streams = True
    together = 1  # a continuation is printed while it is written
    between = "---"

    def lines(self, answer: list[Answer], options: RunOptions) -> list[str]:
        return [each.text for each in answer]


def _as_json(answer: Answer) -> JsonValue:
    found: dict[str, JsonValue] = {"text": answer.text, "score": answer.score}
    if answer.pieces is not None:
        found["tokens"] = list(answer.pieces)
    if answer.alignment is not None:
        found["alignment"] = [list(pair) for pair in answer.alignment]
    if answer.truncated:
        found["truncated"] = True
    return found


def _columns(answer: Answer, options: RunOptions) -> list[str]:
    score = [f"{answer.score:.4f}"] if options.scores else []
    words = [] if answer.alignment is None else [" ".join(f"{source}-{target}" for source, target in answer.alignment)]
    return [answer.text.replace("\n", " "), *score, *words]


class Label(TypedDict):
    """A label with its probability."""

    label: str
    score: float


def ranked(labels: Sequence[str], shares: Sequence[float]) -> list[Label]:
    """Every label with its probability, the most probable first."""
    pairs = sorted(zip(labels, shares, strict=True), key=lambda pair: -pair[1])
    return [{"label": label, "score": share} for label, share in pairs]


class LabelsOut(Surface[AskedT, list[Label]], Generic[AskedT]):
    """The output is every label with its probability, the most probable first; people see the first."""

    answers = "labels"

    def lines(self, answer: list[Label], options: RunOptions) -> list[str]:
        return [f"{answer[0]['label']}\t{answer[0]['score']:.4f}"]


class Texts(NamedTuple):
    """One text, or two that are read together."""

    first: str
    second: str | None = None

    @property
    def line(self) -> str:
        """As a line of input."""
        return "\t".join(" ".join(text.split()) for text in self if text is not None)

    @property
    def joined(self) -> str:
        """As one text."""
        return " ".join(text for text in self if text is not None)

    @property
    def title(self) -> str:
        return self.first if self.second is None else f"{self.first} | {self.second}"


def one_or_two(line: str) -> Texts:
    """A line holds a text, or two with a tab between them."""
    first, tab, second = line.partition("\t")
    return Texts(first, second if tab else None)


def texts_of(body: object, *, keys: tuple[str, str]) -> Texts:
    """A text, a list of one or two, or an object with these keys, of which the second may be missing."""
    if isinstance(body, Texts):
        return body
    if isinstance(body, str):
        return Texts(body)
    if isinstance(body, Mapping):
        body = [body[key] for key in keys if body.get(key) is not None]
    if not isinstance(body, Sequence) or not all(isinstance(each, str) for each in body):
        raise RegardError(f'give a text, two texts, or {{"{keys[0]}": "…", "{keys[1]}": "…"}}')
    if len(body) not in (1, 2):
        raise RegardError(f"{len(body)} texts were given where one or two are asked about; give a text or a pair")
    return Texts(*body)


def text_of(body: object) -> str:
    """A text, or an object with the key "text"."""
    found = body.get("text") if isinstance(body, Mapping) else body
    if not isinstance(found, str):
        raise RegardError(f'give a text, or {{"text": "…"}}, and not {type(found).__name__}')
    return found
