"""The input is a sentence, the output is a tag for each word, predicted at the first token of the word.

    loss    Σ over words of −log P(tag | sentence)
    scores  precision, recall and F1 of entities, as conlleval and seqeval count; for tags without prefixes such as
            parts of speech, accuracy

A sentence that is too long for the model is read in several parts; a word that is too long is cut.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeGuard

from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.files import read_lines, read_object
from regard.data.packing import without_packing
from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import IGNORED, Row
from regard.data.splits import Splits
from regard.errors import RegardError
from regard.tasks.base import FINE_TUNING, Codec, Judgement, Looking, Objective, RunOptions, Score, Setting, Sight
from regard.tasks.parts import counted
from regard.tasks.rows import Choices, Rows, RowsTask, label_numbers
from regard.tasks.schemes import OUTSIDE, begun, entity_scores, have_prefixes, word_scores
from regard.tasks.significance import judgement
from regard.tasks.tag.reading import Answers, Asked, Entities, TagColumns, TaggedData, TagReading, text_asked
from regard.tasks.together import together

BETWEEN = "-DOCSTART-"  # stands between documents


@dataclass(frozen=True)
class Tagged:
    """A sentence: its words, and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    place: str

    @property
    def key(self) -> str:
        return " ".join(self.words)


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
        self.reading = TagReading(rows, self.labels, words=words, whole=whole)

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
            raise RegardError(f"data.train has only the tag {found[0]!r}; a tagger needs two or more")
        return tuple(found)

    @classmethod
    def texts(cls, examples: Sequence[Tagged]) -> Iterator[str]:
        return (" ".join(example.words) for example in examples)

    def encode(self, examples: Sequence[Tagged]) -> list[Row]:
        found = []
        for example in examples:
            numbers = label_numbers(self.labels, example.tags, example.place)
            for row, begins in self.reading.parts(example.words):
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
        return self.reading.answers(asked, lambda rows: self.rows.outputs(model, rows))

    def tag(self, model: nn.Module, sentences: Sequence[Sequence[str]]) -> list[list[tuple[str, float]]]:
        """The tag of every word and its probability."""
        return self.reading.tags(sentences, lambda rows: self.rows.outputs(model, rows))

    def sight(self, model: nn.Module, asked: Asked, look: Looking) -> Sight:
        """What the model reads of a sentence, and the tag it chooses for each word. Of a sentence in several parts, the
        first is shown."""
        words = [word for word, _ in self.reading.words_of(asked)]
        parts = list(self.reading.parts(words)) or [(self.rows.framing.frame([]), [])]
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
            text_asked(asked),
            lambda batch: model(batch.tokens, batch.lengths, batch.segments)[:, places],
            choices=Choices(names, said=said, places=places).forced(look.reference) if names else None,
            notes=notes,
        )

    def inputs(self, examples: object) -> list[Asked]:
        return [each.words for each in _tagged(examples)]

    def judged(self, examples: object, first: Sequence[Answers], second: Sequence[Answers]) -> Judgement:
        """F1 of entities, 2 hits / (said + right), or the percentage of right tags."""
        sentences = _tagged(examples)

        def score(side: Sequence[Answers]) -> Score:
            every = zip(side, sentences, strict=True)
            parts = counted([self.reading.counted(answer, each.words, each.tags) for answer, each in every])
            return Score(parts.score(), parts=parts)

        best = Objective("f1" if have_prefixes(self.labels) else "accuracy", higher=True)
        return judgement(best, score(first), score(second))

    def scores(self, model: nn.Module, examples: Sequence[Tagged]) -> dict[str, Score]:
        for example in examples:
            label_numbers(self.labels, example.tags, example.place)
        said = together(
            [example.words for example in examples],
            lambda some: [[tag for tag, _ in tags] for tags in self.tag(model, some)],
        )
        right = [example.tags for example in examples]
        return entity_scores(said, right) if have_prefixes(self.labels) else word_scores(said, right)


def _tagged(examples: object) -> list[Tagged]:
    assert isinstance(examples, list)
    return examples


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
