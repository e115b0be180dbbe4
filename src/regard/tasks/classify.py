"""A text in, or two, and a label out.

loss    −log P(label | text)        scores   accuracy and F1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from regard.data.framing import Framed
from regard.data.labelled import Labelled, label_numbers
from regard.data.text_batches import TextBatch
from regard.errors import RegardError
from regard.tasks.reading import Reading, Sight
from regard.tasks.scores import Score

Asked = str | Sequence[str] | Mapping[str, str]  # a text, a pair, or {"text": …, "text_pair": …}


class Classify:
    """The task, with the labels it knows."""

    best = "accuracy"

    def __init__(self, reading: Reading, labels: Sequence[str], *, smoothing: float = 0.0) -> None:
        self.reading, self.labels, self.smoothing = reading, list(labels), smoothing

    @staticmethod
    def labels_of(examples: Sequence[Labelled]) -> list[str]:
        found = sorted({example.label for example in examples})
        if len(found) < 2:
            raise RegardError(f"data.train has the label {found[0]!r} alone; a classifier needs two or more")
        return found

    @staticmethod
    def texts(examples: Sequence[Labelled]) -> Iterator[str]:
        return (text for example in examples for text in (example.text, example.pair) if text)

    def encode(self, examples: Sequence[Labelled]) -> list[Framed]:
        framed = self.reading.frame([each.text for each in examples], [each.pair for each in examples])
        numbers = [label_numbers(self.labels, [each.label], each.place)[0] for each in examples]
        return [Framed(row.ids, row.segments, (number,)) for row, number in zip(framed, numbers, strict=True)]

    def loss(self, model: Any, batch: TextBatch) -> Tensor:
        """Summed over the texts."""
        logits = model(batch.tokens, batch.lengths, batch.segments)  # (B, C)
        return F.cross_entropy(logits, batch.wanted[:, 0], label_smoothing=self.smoothing, reduction="sum")

    def answer(self, model: Any, asked: Sequence[Asked]) -> list[list[dict[str, Any]]]:
        """Every label with its probability, the most probable first."""
        pairs = [_pair(each) for each in asked]
        framed = self.reading.frame([first for first, _ in pairs], [second for _, second in pairs])
        answers: list[list[dict[str, Any]]] = [[] for _ in asked]
        for batch, logits in self.reading.passes(model, framed):
            for row, shares in zip(batch.rows, logits.softmax(-1).tolist(), strict=True):
                ranked = sorted(zip(self.labels, shares, strict=True), key=lambda pair: -pair[1])
                answers[row] = [{"label": label, "score": share} for label, share in ranked]
        return answers

    def sight(self, model: Any, asked: Asked) -> Sight:
        """What the model reads of a text or a pair, and which label it chooses."""
        first, second = _pair(asked)
        (row,) = self.reading.frame([first], [second])
        return Sight(
            row,
            first if second is None else f"{first} | {second}",
            lambda batch: model(batch.tokens, batch.lengths, batch.segments).unsqueeze(1),
            names=[self.labels],
            places={"mean": (), "last": (len(row.ids) - 1,)}.get(model.pooling, (0,)),
            said=lambda chosen: self.labels[chosen[0]],
        )

    def scores(self, model: Any, examples: Sequence[Labelled]) -> dict[str, Score]:
        for example in examples:
            label_numbers(self.labels, [example.label], example.place)
        asked = [each.text if each.pair is None else (each.text, each.pair) for each in examples]
        said = [found[0]["label"] for found in self.answer(model, asked)]
        right = [example.label for example in examples]
        share = sum(map(str.__eq__, said, right)) / len(right)
        if len(self.labels) == 2:
            how, f1 = f"F1 of the label {self.labels[1]!r}", f1_of(self.labels[1], said, right)
        else:
            how, f1 = (
                "mean F1 of the labels",
                sum(f1_of(label, said, right) for label in self.labels) / len(self.labels),
            )
        return {
            "accuracy": Score(100 * share, f"percent of {len(right)} texts"),
            "f1": Score(100 * f1, f"{how}, in percent"),
        }

    @staticmethod
    def shown(answer: Sequence[Mapping[str, Any]]) -> list[str]:
        return [f"{answer[0]['label']}\t{answer[0]['score']:.4f}"]


def f1_of(label: str, said: Sequence[str], right: Sequence[str]) -> float:
    """2 hits / (said + right), 0 where the label is neither said nor right."""
    hits = sum(a == b == label for a, b in zip(said, right, strict=True))
    total = said.count(label) + right.count(label)
    return 2 * hits / total if total else 0.0


def _pair(asked: Asked) -> tuple[str, str | None]:
    if isinstance(asked, str):
        return asked, None
    if isinstance(asked, Mapping):
        return asked["text"], asked.get("text_pair")
    if len(asked) != 2:
        raise RegardError(f"{len(asked)} texts were given where one or two are asked about; give a text or a pair")
    return asked[0], asked[1]
