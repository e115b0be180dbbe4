"""The input is a text or a pair of texts, the output is a label.

loss    −log P(label | text)        scores   accuracy and F1
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from regard.checking import Settings
from regard.data.files import Column, is_numbered, read_rows
from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import Row
from regard.errors import RegardError
from regard.tasks.base import FINE_TUNING, Codec, Looking, RunOptions, Score, Setting, Sight
from regard.tasks.rows import Choices, Rows, RowsData, RowsTask, label_numbers, pooled_places
from regard.tasks.surfaces import Label, LabelsOut, Texts, one_or_two, ranked, texts_of
from regard.tasks.together import together


class TextColumns(Settings):
    """Where an example stands in a row: names, or numbers counted from 1.

    In TSV and CSV a name means that the first line is a header. Not given: the first two columns of a TSV, "text" and
    "label" elsewhere. With `pair`, examples are pairs of texts.
    """

    text: PositiveInt | str | None = None
    pair: PositiveInt | str | None = None
    label: PositiveInt | str | None = None

    def pick(self, *, numbered: bool) -> list[Column]:
        text, label = (1, 2) if numbered else ("text", "label")
        return [self.text or text, self.label or label, *([self.pair] if self.pair else [])]


class LabelledData(RowsData):
    """[data] of classify."""

    columns: TextColumns = Field(default_factory=TextColumns, description="which columns")


@dataclass(frozen=True)
class Labelled:
    """A text, or two, and their label."""

    text: str
    pair: str | None
    label: str
    place: str

    @property
    def key(self) -> str:
        return self.text

    @property
    def asked(self) -> Texts:
        return Texts(self.text, self.pair)


class Labels(LabelsOut[Texts]):
    """The input is a text or a pair; the output is every label with its probability, the most probable first."""

    pipeline = "text-classification"
    two_texts = True

    def parse(self, line: str) -> Texts:
        return one_or_two(line)

    def from_json(self, body: object) -> Texts:
        return texts_of(body, keys=("text", "text_pair"))


class Classify(RowsTask[LabelledData, Labelled, Texts, list[Label]]):
    """The task. `pairs` says whether the model was trained on pairs of texts; None means that this is not known."""

    forms = ("encoder", "causal")
    uses = "text"
    honours = FINE_TUNING | {"training.label_smoothing"}
    data = LabelledData
    surface = Labels()
    best = "accuracy"

    def __init__(self, rows: Rows, labels: Sequence[str], *, smoothing: float = 0.0, pairs: bool | None = None) -> None:
        self.rows, self.labels, self.smoothing, self.pairs = rows, tuple(labels), smoothing, pairs

    @classmethod
    def from_setting(cls, setting: Setting[LabelledData], codec: Codec) -> Self:
        data = setting.data
        rows = Rows.of(setting.model, codec, max_length=data.max_length)
        pairs = data.columns.pair is not None if data.train or data.mix else None
        return cls(rows, codec.labels, smoothing=setting.label_smoothing, pairs=pairs)

    @classmethod
    def examples(cls, name: str, data: LabelledData) -> Iterator[Labelled]:
        """The examples of a file; blank lines are skipped."""
        for line, (text, label, *pair) in read_rows(name, data.columns.pick(numbered=is_numbered(name)), numbers=True):
            place = f"{name}:{line}"
            if not text and not label:
                continue
            if not text.strip() or not label.strip():
                missing = "text" if not text.strip() else "label"
                raise RegardError(f"{place} has no {missing}; fill it in, or leave the line out")
            yield Labelled(text, pair[0] if pair else None, label.strip(), place)

    @classmethod
    def lines(cls, examples: list[Labelled]) -> Iterator[str]:
        return (example.asked.line for example in examples)

    @classmethod
    def labels_of(cls, examples: Sequence[Labelled]) -> tuple[str, ...]:
        found = sorted({example.label for example in examples})
        if len(found) < 2:
            raise RegardError(f"data.train has the label {found[0]!r} alone; a classifier needs two or more")
        return tuple(found)

    @classmethod
    def texts(cls, examples: Sequence[Labelled]) -> Iterator[str]:
        return (text for example in examples for text in example.asked if text)

    def encode(self, examples: Sequence[Labelled]) -> list[Row]:
        framed = self.rows.frame([each.text for each in examples], [each.pair for each in examples])
        numbers = [label_numbers(self.labels, [each.label], each.place)[0] for each in examples]
        return [Row(row.ids, row.segments, (number,)) for row, number in zip(framed, numbers, strict=True)]

    def loss(self, model: nn.Module, batch: RowBatch, *, plain: bool = False) -> Tensor:
        """The cross-entropy, summed over the texts."""
        logits = model(batch.tokens, batch.lengths, batch.segments)  # (B, C)
        smoothing = 0.0 if plain else self.smoothing
        return F.cross_entropy(logits, batch.wanted[:, 0], label_smoothing=smoothing, reduction="sum")

    def answer(self, model: nn.Module, asked: Sequence[Texts], options: RunOptions) -> list[list[Label]]:
        framed = self._framed(asked)
        answers: list[list[Label]] = [[] for _ in asked]
        for batch, logits in self.rows.passes(model, framed):
            for row, shares in zip(batch.rows, logits.softmax(-1).tolist(), strict=True):
                answers[row] = ranked(self.labels, shares)
        return answers

    def _framed(self, asked: Sequence[Texts]) -> list[Row]:
        """The inputs as rows. A warning tells of pairs if the model was trained on single texts, and vice versa."""
        other = sum((each.second is not None) != self.pairs for each in asked)
        if self.pairs is not None and other:
            learned, given = ("pairs of texts", "one text") if self.pairs else ("single texts", "a pair of texts")
            warnings.warn(
                f"this model was trained on {learned}, and {other:,} of {len(asked):,} inputs are {given}", stacklevel=2
            )
        return self.rows.frame([each.first for each in asked], [each.second for each in asked])

    def sight(self, model: nn.Module, asked: Texts, look: Looking) -> Sight:
        """What the model reads of a text or a pair, and which label it chooses."""
        (row,) = self._framed([asked])
        choices = Choices([self.labels], said=lambda chosen: self.labels[chosen[0]], places=pooled_places(model, row))
        return self.rows.sight(
            model,
            row,
            asked.title,
            lambda batch: model(batch.tokens, batch.lengths, batch.segments).unsqueeze(1),
            choices=choices.forced(look.reference),
        )

    def scores(self, model: nn.Module, examples: Sequence[Labelled]) -> dict[str, Score]:
        for example in examples:
            label_numbers(self.labels, [example.label], example.place)
        said = together(
            [each.asked for each in examples],
            lambda some: [answer[0]["label"] for answer in self.answer(model, some, RunOptions())],
        )
        right = [example.label for example in examples]
        share = sum(map(str.__eq__, said, right)) / len(right)
        if len(self.labels) == 2:
            how, f1 = f"F1 of the label {self.labels[1]!r}", f1_of(self.labels[1], said, right)
        else:
            how = "mean F1 of the labels"
            f1 = sum(f1_of(label, said, right) for label in self.labels) / len(self.labels)
        return {
            "accuracy": Score(100 * share, f"percent of {len(right)} texts"),
            "f1": Score(100 * f1, f"{how}, in percent"),
        }


def f1_of(label: str, said: Sequence[str], right: Sequence[str]) -> float:
    """F1 = 2 hits / (predicted + right); it is 0 if the label is neither predicted nor right."""
    hits = sum(a == b == label for a, b in zip(said, right, strict=True))
    total = said.count(label) + right.count(label)
    return 2 * hits / total if total else 0.0
