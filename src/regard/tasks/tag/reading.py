"""Words to a tag for each: the [data], the surface, and how answers are made. Torch is not imported here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypedDict, final

from pydantic import Field, PositiveInt

from regard.checking import Settings, check
from regard.data.rows.framing import Framing, Row
from regard.tasks.base import Codec, RunOptions, Surface
from regard.tasks.reading import Read, Reading, RowsData, TextRows, softmax
from regard.tasks.schemes import OUTSIDE, entities, have_prefixes
from regard.tasks.surfaces import RUNTIME, text_of

WORD = {"text": re.compile(r"\w+|[^\w\s]"), "spaces": re.compile(r"\S+")}
Part = tuple[Row, list[tuple[int, int]]]  # tokens, and which word (by number) begins at which of them
Asked = str | tuple[str, ...]  # a text, or its words


class TagColumns(Settings):
    """Where word and tag stand on a line: numbers counted from 1, the first and the last unless given.

    In JSONL, the keys of the list of words and of the list of tags: "words" and "tags" unless given.
    """

    word: PositiveInt | str | None = None
    tag: PositiveInt | str | None = None


class TaggedData(RowsData):
    """[data] of tag."""

    columns: TagColumns = Field(default_factory=TagColumns, description="which columns")
    words: Literal["text", "spaces"] = Field(
        "text", description="how a text is cut into words: punctuation apart, or at white space alone"
    )
    entities: Literal["words", "whole"] = Field(
        "words", description="answers are the tagged words, or the entities that these make up"
    )


@final
class Entity(TypedDict):
    """A word with its tag, the number of the word from 1, and its place in the characters of the text."""

    entity: str
    score: float
    index: int
    word: str
    start: int
    end: int


@final
class Whole(TypedDict):
    """An entity with its type, the mean probability of its tags, its text, and its place in the characters."""

    entity_group: str
    score: float
    word: str
    start: int
    end: int


Answers = list[Entity] | list[Whole]


@dataclass(frozen=True)
class TagReading(Reading[Asked, Answers]):
    """The tagged words or the entities of a text, by softmax(y) at the first token of each word."""

    rows: TextRows
    labels: tuple[str, ...]
    words: Literal["text", "spaces"] = "text"
    whole: bool = False  # whether answers are entities

    output = "tokens"

    def answers(self, asked: Sequence[Asked], read: Read) -> list[Answers]:
        """The tagged words or the entities of each input. A text is cut into words; words that are given are not cut
        again, and their offsets are those in a text with a space between words."""
        cut = [self.words_of(each) for each in asked]
        tagged = self.tags([[word for word, _ in words] for words in cut], read)
        if not self.whole:
            return [_tagged_words(words, tags) for words, tags in zip(cut, tagged, strict=True)]
        every = zip(map(text_asked, asked), cut, tagged, strict=True)
        return [_whole_entities(text, words, tags) for text, words, tags in every]

    def tags(self, sentences: Sequence[Sequence[str]], read: Read) -> list[list[tuple[str, float]]]:
        """The tag of every word and its probability. A word without tokens has the tag O."""
        found = [[(OUTSIDE, 1.0)] * len(words) for words in sentences]
        parts = [(number, *part) for number, words in enumerate(sentences) for part in self.parts(words)]
        outputs = read([row for _, row, _ in parts])
        for (sentence, _, begins), logits in zip(parts, outputs, strict=True):
            shares = softmax(logits)  # (L, C)
            for word, place in begins:
                best = int(shares[place].argmax())
                found[sentence][word] = (self.labels[best], float(shares[place, best]))
        return found

    def counted(self, answer: Answers, words: Sequence[str], tags: Sequence[str]) -> tuple[int, int]:
        """What of an answer is right, and of how much: 2 hits of said + right entities, or the right tags of all."""
        said = self._said(answer, len(words))
        if not have_prefixes(self.labels):
            return sum(map(str.__eq__, said, tags)), len(tags)
        cut = self.words_of(tuple(words))
        right = _whole_entities("", cut, [(tag, 1.0) for tag in tags])
        found = answer if self.whole else _whole_entities("", cut, [(tag, 1.0) for tag in said])
        ours, theirs = (_places(side) for side in (found, right))
        return 2 * len(ours & theirs), len(ours) + len(theirs)

    @staticmethod
    def _said(answer: Answers, words: int) -> list[str]:
        """The tag of each word, as far as an answer names words."""
        said = [OUTSIDE] * words
        for each in answer:
            if "index" in each:
                said[each["index"] - 1] = each["entity"]
        return said

    def words_of(self, asked: Asked) -> list[tuple[str, int]]:
        """The words of an input, and where each begins in the text."""
        if isinstance(asked, str):
            return [(found[0], found.start()) for found in WORD[self.words].finditer(asked)]
        begins = accumulate((len(word) + 1 for word in asked), initial=0)
        return list(zip(asked, begins, strict=False))

    def parts(self, words: Sequence[str]) -> Iterator[Part]:
        """The sentence in as many parts as it needs, each of whole words."""
        room = self.rows.framing.maximum - self.rows.framing.room_taken(pair=False)
        ids: list[int] = []
        begins: list[tuple[int, int]] = []
        for number, tokens in enumerate(self.rows.tokenizer.encode_words(words)):
            tokens = tokens[:room]
            if len(ids) + len(tokens) > room:
                yield self.rows.framing.frame(ids), begins
                ids, begins = [], []
            if tokens:
                begins.append((number, self.rows.framing.first_place + len(ids)))
                ids += tokens
        if ids:
            yield self.rows.framing.frame(ids), begins


class Entities(Surface[Asked, Answers]):
    """The input is a text or a list of words; the output is every word whose tag is not O, or every entity."""

    answers = "tags"
    pipeline = "token-classification"
    options = RUNTIME

    def parse(self, line: str) -> Asked:
        return line

    def from_json(self, body: object) -> Asked:
        if isinstance(body, list | tuple) and all(isinstance(word, str) for word in body):
            return tuple(body)
        return text_of(body)

    def lines(self, answer: Answers, options: RunOptions) -> list[str]:
        return [" ".join(f"{each['word']}/{_named(each)}" for each in answer)]

    def reading(self, data: Mapping[str, object], codec: Codec, framing: Framing) -> TagReading:
        table = check(TaggedData, data, where="data")
        rows = TextRows(codec.texts().source, framing.at_most(table.max_length))
        return TagReading(rows, codec.labels, words=table.words, whole=table.entities == "whole")


def _tagged_words(words: Sequence[tuple[str, int]], tags: Sequence[tuple[str, float]]) -> list[Entity]:
    return [
        {"entity": tag, "score": score, "index": number, "word": word, "start": at, "end": at + len(word)}
        for number, ((word, at), (tag, score)) in enumerate(zip(words, tags, strict=True), start=1)
        if tag != OUTSIDE
    ]


def _whole_entities(text: str, words: Sequence[tuple[str, int]], tags: Sequence[tuple[str, float]]) -> list[Whole]:
    """The entities in the form of transformers' pipeline with aggregation_strategy="simple"."""
    found: list[Whole] = []
    for kind, first, after in sorted(entities([tag for tag, _ in tags]), key=lambda entity: entity[1]):
        start, (last, at) = words[first][1], words[after - 1]
        score = sum(score for _, score in tags[first:after]) / (after - first)
        end = at + len(last)
        found.append({"entity_group": kind, "score": score, "word": text[start:end], "start": start, "end": end})
    return found


def _places(answer: Answers) -> set[tuple[str, int, int]]:
    """The entities of an answer: type, beginning and end."""
    return {(each["entity_group"], each["start"], each["end"]) for each in answer if "entity_group" in each}


def _named(each: Entity | Whole) -> str:
    return each["entity_group"] if "entity_group" in each else each["entity"]


def text_asked(asked: Asked) -> str:
    return asked if isinstance(asked, str) else " ".join(asked)
