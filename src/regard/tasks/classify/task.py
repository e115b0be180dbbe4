"""The input is a text or a pair of texts, the output is a label.

loss    −log P(label | text)        scores   accuracy and F1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.files import is_numbered, read_rows
from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import Row
from regard.errors import RegardError
from regard.tasks.base import FINE_TUNING, Codec, Judgement, Looking, Objective, RunOptions, Score, Setting, Sight
from regard.tasks.classify.reading import LabelledData, LabelReading, Labels, trained_on_pairs
from regard.tasks.parts import counted, shares
from regard.tasks.rows import Choices, Rows, RowsTask, label_numbers, pooled_places
from regard.tasks.significance import judgement
from regard.tasks.surfaces import Label, Texts
from regard.tasks.together import together


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


class Classify(RowsTask[LabelledData, Labelled, Texts, list[Label]]):
    """The task. `pairs` says whether the model was trained on pairs of texts; None means that this is not known."""

    forms = ("encoder", "causal")
    uses = "text"
    honours = FINE_TUNING | {"training.label_smoothing"}
    data = LabelledData
    surface = Labels()
    best = "accuracy"

    def __init__(self, rows: Rows, labels: Sequence[str], *, smoothing: float = 0.0, pairs: bool | None = None) -> None:
        self.rows, self.labels, self.smoothing = rows, tuple(labels), smoothing
        self.reading = LabelReading(rows, self.labels, pairs)

    @classmethod
    def from_setting(cls, setting: Setting[LabelledData], codec: Codec) -> Self:
        data = setting.data
        rows = Rows.of(setting.model, codec, max_length=data.max_length)
        return cls(rows, codec.labels, smoothing=setting.label_smoothing, pairs=trained_on_pairs(data))

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
            raise RegardError(f"data.train has only the label {found[0]!r}; a classifier needs two or more")
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
        return self.reading.answers(asked, lambda rows: self.rows.outputs(model, rows))

    def sight(self, model: nn.Module, asked: Texts, look: Looking) -> Sight:
        """What the model reads of a text or a pair, and which label it chooses."""
        (row,) = self.reading.framed([asked])
        choices = Choices([self.labels], said=lambda chosen: self.labels[chosen[0]], places=pooled_places(model, row))
        return self.rows.sight(
            model,
            row,
            asked.title,
            lambda batch: model(batch.tokens, batch.lengths, batch.segments).unsqueeze(1),
            choices=choices.forced(look.reference),
        )

    def inputs(self, examples: object) -> list[Texts]:
        return [each.asked for each in _labelled(examples)]

    def judged(self, examples: object, first: Sequence[list[Label]], second: Sequence[list[Label]]) -> Judgement:
        """The percentage of right labels."""
        right = [each.label for each in _labelled(examples)]
        scores = (_accuracy([answer[0]["label"] for answer in side], right) for side in (first, second))
        return judgement(Objective("accuracy", higher=True), *scores)

    def scores(self, model: nn.Module, examples: Sequence[Labelled]) -> dict[str, Score]:
        for example in examples:
            label_numbers(self.labels, [example.label], example.place)
        said = together(
            [each.asked for each in examples],
            lambda some: [answer[0]["label"] for answer in self.answer(model, some, RunOptions())],
        )
        right = [example.label for example in examples]
        if len(self.labels) == 2:
            how, labels = f"F1 of the label {self.labels[1]!r}", [self.labels[1]]
        else:
            how, labels = "mean F1 of the labels", list(self.labels)
        f1 = sum(f1_of(label, said, right) for label in labels) / len(labels)
        each = [
            [count for label in labels for count in (2 * (a == b == label), (a == label) + (b == label))]
            for a, b in zip(said, right, strict=True)
        ]
        return {
            "accuracy": _accuracy(said, right),
            "f1": Score(100 * f1, f"{how}, in percent", counted(each, form="macro")),
        }


def _accuracy(said: Sequence[str], right: Sequence[str]) -> Score:
    hits = list(map(str.__eq__, said, right))
    return Score(100 * (sum(hits) / len(right)), f"percent of {len(right)} texts", shares(hits))


def _labelled(examples: object) -> list[Labelled]:
    assert isinstance(examples, list)
    return examples


def f1_of(label: str, said: Sequence[str], right: Sequence[str]) -> float:
    """F1 = 2 hits / (predicted + right); it is 0 if the label is neither predicted nor right."""
    hits = sum(a == b == label for a, b in zip(said, right, strict=True))
    total = said.count(label) + right.count(label)
    return 2 * hits / total if total else 0.0
