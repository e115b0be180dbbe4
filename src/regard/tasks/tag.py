"""The input is a sentence, the output is a tag for each word, predicted at the first token of the word.

    loss    Σ over words of −log P(tag | sentence)
    scores  precision, recall and F1 of entities, as conlleval and seqeval count; for tags without prefixes such as
            parts of speech, accuracy

A sentence that is too long for the model is read in several parts; a word that is too long is cut.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, Self, TypedDict, TypeGuard, final

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from regard.checking import Settings
from regard.data.files import read_lines, read_object
from regard.data.packing import without_packing
from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import IGNORED, Row
from regard.data.splits import Splits
from regard.errors import RegardError
from regard.tasks.base import FINE_TUNING, Codec, Looking, Objective, RunOptions, Score, Setting, Sight, Surface
from regard.tasks.rows import Choices, Rows, RowsData, RowsTask, label_numbers
from regard.tasks.schemes import OUTSIDE, begun, entities, entity_scores, have_prefixes, word_scores
from regard.tasks.surfaces import text_of
from regard.tasks.together import together

BETWEEN = "-DOCSTART-"  # stands between documents
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


@dataclass(frozen=True)
class Tagged:
    """A sentence: its words, and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    place: str

    @property
    def key(self) -> str:
        return " ".join(self.words)


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


class Entities(Surface[Asked, Answers]):
    """The input is a text or a list of words; the output is every word whose tag is not O, or every entity."""

    answers = "tags"
    pipeline = "token-classification"

    def parse(self, line: str) -> Asked:
        return line

    def from_json(self, body: object) -> Asked:
        if isinstance(body, list | tuple) and all(isinstance(word, str) for word in body):
            return tuple(body)
        return text_of(body)

    def lines(self, answer: Answers, options: RunOptions) -> list[str]:
        return [" ".join(f"{each['word']}/{_named(each)}" for each in answer)]


class Tag(RowsTask[TaggedData, Tagged, Asked, Answers]):
    """The task, with the tags it knows."""

    uses = "tokens"
    honours = FINE_TUNING | {"training.label_smoothing"}
    data = TaggedData
    surface = Entities()

    def __init__(
        self,
        rows: Rows,
        labels: Sequence[str],
        *,
        smoothing: float = 0.0,
        words: Literal["text", "spaces"] = "text",
        whole: bool = False,
    ) -> None:
        self.rows, self.labels, self.smoothing = rows, tuple(labels), smoothing
        self.words, self.whole = words, whole

    @classmethod
    def from_setting(cls, setting: Setting[TaggedData], codec: Codec) -> Self:
        data = setting.data
        rows = Rows.of(setting.model, codec, max_length=data.max_length)
        whole = data.entities == "whole"
        return cls(rows, codec.labels, smoothing=setting.label_smoothing, words=data.words, whole=whole)

    @classmethod
    def examples(cls, name: str, data: TaggedData) -> Iterator[Tagged]:
        """The sentences of a file: .jsonl, or a word and its tag on each line and a blank line after each sentence."""
        if without_packing(name).endswith(".jsonl"):
            return _read_objects(name, data.columns)
        return _read_conll(name, data.columns)

    @classmethod
    def lines(cls, examples: list[Tagged]) -> Iterator[str]:
        return (" ".join(example.words) for example in examples)

    @classmethod
    def labels_of(cls, examples: Sequence[Tagged]) -> tuple[str, ...]:
        found = sorted({tag for example in examples for tag in example.tags})
        if len(found) < 2:
            raise RegardError(f"data.train has the tag {found[0]!r} alone; a tagger needs two or more")
        return tuple(found)

    @classmethod
    def texts(cls, examples: Sequence[Tagged]) -> Iterator[str]:
        return (" ".join(example.words) for example in examples)

    def encode(self, examples: Sequence[Tagged]) -> list[Row]:
        found = []
        for example in examples:
            numbers = label_numbers(self.labels, example.tags, example.place)
            for row, begins in self._parts(example.words):
                wanted = [IGNORED] * len(row.ids)
                for word, place in begins:
                    wanted[place] = numbers[word]
                found.append(Row(row.ids, row.segments, tuple(wanted)))
        return [row for row in found if any(each != IGNORED for each in row.wanted)]

    def loss(self, model: nn.Module, batch: RowBatch, *, plain: bool = False) -> Tensor:
        """The cross-entropy, summed over the words."""
        real = batch.wanted != IGNORED
        logits = model(batch.tokens, batch.lengths, batch.segments)[real]
        smoothing = 0.0 if plain else self.smoothing
        return F.cross_entropy(logits, batch.wanted[real], label_smoothing=smoothing, reduction="sum")

    def objective(self, splits: Splits[list[Tagged]]) -> Objective:
        return Objective("f1" if have_prefixes(self.labels) else "accuracy", higher=True)

    def answer(self, model: nn.Module, asked: Sequence[Asked], options: RunOptions) -> list[Answers]:
        """The tagged words or the entities of each input. A text is cut into words; words that are given are not cut
        again, and their offsets are those in a text with a space between words."""
        cut = [self._words(each) for each in asked]
        tagged = self.tag(model, [[word for word, _ in words] for words in cut])
        if not self.whole:
            return [_tagged_words(words, tags) for words, tags in zip(cut, tagged, strict=True)]
        every = zip(map(_text, asked), cut, tagged, strict=True)
        return [_whole_entities(text, words, tags) for text, words, tags in every]

    def tag(self, model: nn.Module, sentences: Sequence[Sequence[str]]) -> list[list[tuple[str, float]]]:
        """The tag of every word and its probability. A word without tokens has the tag O."""
        found = [[(OUTSIDE, 1.0)] * len(words) for words in sentences]
        parts = [(number, *part) for number, words in enumerate(sentences) for part in self._parts(words)]
        for batch, logits in self.rows.passes(model, [row for _, row, _ in parts]):
            scores, tags = (each.tolist() for each in logits.softmax(-1).max(-1))
            for line, row in enumerate(batch.rows):
                sentence, _, begins = parts[row]
                for word, place in begins:
                    found[sentence][word] = (self.labels[tags[line][place]], scores[line][place])
        return found

    def sight(self, model: nn.Module, asked: Asked, look: Looking) -> Sight:
        """What the model reads of a sentence, and the tag it chooses for each word. Of a sentence in several parts, the
        first is shown."""
        words = [word for word, _ in self._words(asked)]
        parts = list(self._parts(words)) or [(self.rows.framing.frame([]), [])]
        row, begins = parts[0]
        notes: tuple[str, ...] = ()
        if len(parts) > 1:
            taken = self.rows.framing.room_taken(pair=False)
            shown, *others = (len(part.ids) - taken for part, _ in parts)
            note = f"the text is read in {len(parts)} parts: only the first {shown} of {shown + sum(others)} tokens are"
            notes = (f"{note} looked at",)
            warnings.warn(notes[0], stacklevel=2)
        places = [place for _, place in begins]
        names = [[f"{words[number]}/{tag}" for tag in self.labels] for number, _ in begins]

        def said(chosen: Sequence[int]) -> str:
            named = zip(names, chosen, strict=True)
            return " ".join(every[tag] for every, tag in named if self.labels[tag] != OUTSIDE)

        return self.rows.sight(
            model,
            row,
            _text(asked),
            lambda batch: model(batch.tokens, batch.lengths, batch.segments)[:, places],
            choices=Choices(names, said=said, places=places).forced(look.reference) if names else None,
            notes=notes,
        )

    def scores(self, model: nn.Module, examples: Sequence[Tagged]) -> dict[str, Score]:
        for example in examples:
            label_numbers(self.labels, example.tags, example.place)
        said = together(
            [example.words for example in examples],
            lambda some: [[tag for tag, _ in tags] for tags in self.tag(model, some)],
        )
        right = [example.tags for example in examples]
        return entity_scores(said, right) if have_prefixes(self.labels) else word_scores(said, right)

    def _words(self, asked: Asked) -> list[tuple[str, int]]:
        """The words of an input, and where each begins in the text."""
        if isinstance(asked, str):
            return [(found[0], found.start()) for found in WORD[self.words].finditer(asked)]
        begins = accumulate((len(word) + 1 for word in asked), initial=0)
        return list(zip(asked, begins, strict=False))

    def _parts(self, words: Sequence[str]) -> Iterator[Part]:
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


def _named(each: Entity | Whole) -> str:
    return each["entity_group"] if "entity_group" in each else each["entity"]


def _text(asked: Asked) -> str:
    return asked if isinstance(asked, str) else " ".join(asked)


def _read_conll(name: str, columns: TagColumns) -> Iterator[Tagged]:
    word, tag = columns.word or 1, columns.tag or 0
    if isinstance(word, str) or isinstance(tag, str):
        raise RegardError(f"data.columns gives a name, but {name} has no header; give numbers, counted from 1")
    words: list[str] = []
    tags: list[str] = []
    first = 1
    for number, line in read_lines(name):
        cells = line.split()
        if not cells or cells[0] == BETWEEN:
            if words:
                yield Tagged(tuple(words), begun(tags), f"{name}:{first}")
            words, tags, first = [], [], number + 1
            continue
        if len(cells) < max(word, tag, 2):
            raise RegardError(f"{name}:{number} has {len(cells)} columns; each line needs a word and its tag")
        words.append(cells[word - 1])
        tags.append(cells[tag - 1])
    if words:
        yield Tagged(tuple(words), begun(tags), f"{name}:{first}")


def _read_objects(name: str, columns: TagColumns) -> Iterator[Tagged]:
    keys = (str(columns.word or "words"), str(columns.tag or "tags"))
    for number, line in read_lines(name):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        record = read_object(place, line, keys)
        words, tags = (record.get(key) for key in keys)
        if not _texts(words) or not _texts(tags) or len(words) != len(tags):
            raise RegardError(f"{place} needs {keys[0]!r} and {keys[1]!r}: two lists of text, one as long as the other")
        if words:
            yield Tagged(tuple(words), begun(tags), place)


def _texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
