"""A text or two to a label: the [data], the surface, and how answers are made. Torch is not imported here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field, PositiveInt

from regard.checking import Settings, check
from regard.data.files import Column
from regard.data.rows.framing import Framing, Row
from regard.tasks.base import Codec
from regard.tasks.reading import Read, Reading, RowsData, TextRows, softmax
from regard.tasks.surfaces import RUNTIME, Label, LabelsOut, Texts, one_or_two, ranked, texts_of


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
class LabelReading(Reading[Texts, list[Label]]):
    """Every label with its probability, softmax(y). `pairs` says whether the model was trained on pairs of texts; None
    means that this is not known."""

    rows: TextRows
    labels: tuple[str, ...]
    pairs: bool | None = None

    output = "text"

    def answers(self, asked: Sequence[Texts], read: Read) -> list[list[Label]]:
        return [ranked(self.labels, softmax(logits).tolist()) for logits in read(self.framed(asked))]

    def framed(self, asked: Sequence[Texts]) -> list[Row]:
        """The inputs as rows. A warning tells of pairs if the model was trained on single texts, and vice versa."""
        other = sum((each.second is not None) != self.pairs for each in asked)
        if self.pairs is not None and other:
            learned, given = ("pairs of texts", "one text") if self.pairs else ("single texts", "a pair of texts")
            warnings.warn(
                f"this model was trained on {learned}, and {other:,} of {len(asked):,} inputs are {given}", stacklevel=2
            )
        return self.rows.frame([each.first for each in asked], [each.second for each in asked])


class Labels(LabelsOut[Texts]):
    """The input is a text or a pair; the output is every label with its probability, the most probable first."""

    pipeline = "text-classification"
    two_texts = True
    options = RUNTIME

    def parse(self, line: str) -> Texts:
        return one_or_two(line)

    def from_json(self, body: object) -> Texts:
        return texts_of(body, keys=("text", "text_pair"))

    def reading(self, data: Mapping[str, object], codec: Codec, framing: Framing) -> LabelReading:
        table = check(LabelledData, data, where="data")
        return LabelReading(
            TextRows(codec.texts().source, framing.at_most(table.max_length)), codec.labels, trained_on_pairs(table)
        )


def trained_on_pairs(data: LabelledData) -> bool | None:
    """Whether a model was trained on pairs of texts; None if its data is not known."""
    return data.columns.pair is not None if data.train or data.mix else None
