"""The input is a set, the output is a label or numbers.

loss    −log P(label | set), or Σ |y − ŷ| or Σ (y − ŷ)² of numbers in units of their standard deviation
scores  accuracy; mean absolute error and root mean square error
"""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal, Self, TypedDict, TypeGuard

import numpy
import torch
from numpy.typing import NDArray
from pydantic import Field, JsonValue, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from regard import models
from regard.checking import Settings
from regard.data.sets.batches import FlatSets, SetBatch, SetStream
from regard.data.sets.examples import Elements, SetExample, elements_of, line_of, names_of, read_sets
from regard.data.sets.scale import Scale
from regard.data.splits import DataTable, Splits, divide
from regard.data.streams import Stream
from regard.errors import RegardError, listed
from regard.models.facts import ModelConfig
from regard.tasks.base import (
    Codec,
    Exam,
    Looking,
    Objective,
    RunOptions,
    Score,
    Setting,
    Side,
    Sight,
    Surface,
    Task,
    Work,
)
from regard.tasks.counting import counter
from regard.tasks.modules import ReadsSets
from regard.tasks.parts import means, shares
from regard.tasks.together import spread

CELLS = 1 << 14  # elements of sets that are answered together, padding included
QUICK = 2000  # sets that validation answers: enough to rank checkpoints by


class SetColumns(Settings):
    """The columns of a set and of its label or numbers."""

    set: str = "set"
    label: str = "label"


class SetsData(DataTable):
    """[data] of sets."""

    train: str | list[str] | None = Field(None, description="a .jsonl or .parquet file, or a list of files")
    valid: str | list[str] | None = Field(None, description="as train; without it, examples are held out of train")
    test: str | list[str] | None = Field(None, description="as train")
    hold_out: PositiveInt | float | None = Field(
        None, description="examples held out: a number or a share; 2 % if not given"
    )
    columns: SetColumns = Field(default_factory=SetColumns, description="which columns")
    elements: Literal["auto", "words"] = Field("auto", description="words: whole numbers are names and not amounts")
    most_words: PositiveInt = Field(30_000, description="different words that are told apart, the most frequent ones")
    loss: Literal["absolute", "squared"] = Field("absolute", description="of numbers")


class Label(TypedDict):
    """A label with its probability."""

    label: str
    score: float


Answer = list[Label] | list[float]  # every label, the most probable first; or numbers


class LabelsOrNumbers(Surface[Elements, Answer]):
    """The input is a set as a JSON list; the output is every label with its probability, or numbers."""

    answers = "labels or numbers of sets"
    pipeline = "tabular-classification"
    example = "'[3, 17, 99]'"

    def parse(self, line: str) -> Elements:
        try:
            return elements_of(json.loads(line))
        except (ValueError, RecursionError) as error:
            if isinstance(error, RegardError):
                raise
            raise RegardError(f"{line[:60]!r} is no JSON list; give a set such as [3, 17, 99]") from None

    def from_json(self, body: object) -> Elements:
        if _is_words(body):
            return body
        found = body.get("set") if isinstance(body, Mapping) else body
        if not isinstance(found, list | tuple | numpy.ndarray):
            raise RegardError(
                'give a set: a tuple such as (3, 17, 99), or {"set": [3, 17, 99]}; in Python, a list is a list of sets'
            )
        return elements_of(found)

    def lines(self, answer: Answer, options: RunOptions) -> list[str]:
        if _are_labels(answer):
            return [f"{answer[0]['label']}\t{answer[0]['score']:.4f}"]
        return ["\t".join(f"{number:.6g}" for number in answer)]

    def brief(self, answer: Answer) -> object:
        return answer if _are_labels(answer) or len(answer) > 1 else answer[0]


def _is_words(body: object) -> TypeGuard[tuple[str, ...]]:
    return isinstance(body, tuple) and bool(body) and all(isinstance(each, str) for each in body)


def _are_labels(answer: Answer) -> TypeGuard[list[Label]]:
    return isinstance(answer[0], dict)


class JudgeSets(Task[SetsData, list[SetExample], Elements, Answer, SetBatch]):
    """The task. Elements are words, or numbers on a scale; what is said of a set is a label, or numbers on a scale."""

    forms = ("sets",)
    honours = frozenset({"training.batch_size", "training.label_smoothing"})
    data = SetsData
    surface = LabelsOrNumbers()

    def __init__(
        self, elements: Scale | Sequence[str], wanted: Scale | Sequence[str], *, loss: str, smoothing: float
    ) -> None:
        self.scale = elements if isinstance(elements, Scale) else None
        self.words = {} if isinstance(elements, Scale) else {word: at for at, word in enumerate(elements, 1)}
        self.outputs = wanted if isinstance(wanted, Scale) else None
        self.labels = () if isinstance(wanted, Scale) else tuple(wanted)
        self.squared, self.smoothing = loss == "squared", smoothing

    @classmethod
    def from_setting(cls, setting: Setting[SetsData], codec: Codec) -> Self:
        stored = codec.numbers
        words = stored.get("words")
        elements = list(map(str, words)) if isinstance(words, list) else Scale.stored(stored.get("elements"))
        wanted = codec.labels or Scale.stored(stored.get("wanted"))
        return cls(elements, wanted, loss=setting.data.loss, smoothing=setting.label_smoothing)

    # what there is to learn from

    @classmethod
    def read(cls, entry: object, data: SetsData, *, key: str) -> list[SetExample]:
        if not entry:
            raise RegardError(f"{key} is missing; name a file, such as --set {key}=my.jsonl")
        columns, words = (data.columns.set, data.columns.label), data.elements == "words"
        names = entry if isinstance(entry, list) else [entry]
        found = [example for name in names for example in read_sets(str(name), columns, words=words)]
        if not found:
            raise RegardError(f"{key} = {entry!r} has no examples; name another file")
        return found

    @classmethod
    def open(cls, setting: Setting[SetsData], work: Work | None) -> Splits[list[SetExample]]:
        data = setting.data
        train = cls.read(data.train, data, key="data.train")
        test = cls.read(data.test, data, key="data.test") if data.test else None
        if data.valid:
            return Splits(train, cls.read(data.valid, data, key="data.valid"), test)
        return Splits(*divide(train, amount=data.hold_out, seed=setting.seed), test)

    @classmethod
    def lines(cls, examples: list[SetExample]) -> Iterator[str]:
        return (line_of(example.elements) for example in examples)

    @classmethod
    def learn(cls, setting: Setting[SetsData], train: list[SetExample], body: Codec | None) -> Codec:
        """The words or the scale of the elements, and the labels or the scale of the numbers that are wanted."""
        _require_alike(train)
        numbers: dict[str, JsonValue] = {}
        if isinstance(train[0].elements, tuple):
            counts = Counter(chain.from_iterable(map(str, example.elements) for example in train))
            ranked = sorted(counts, key=lambda word: (-counts[word], word))
            numbers["words"] = list[JsonValue](ranked[: setting.data.most_words])
        else:
            numbers["elements"] = Scale.measured([numpy.asarray(each.elements) for each in train]).to_json()
        if not isinstance(train[0].wanted, str):
            rows = [numpy.array([example.wanted]) for example in train]
            return Codec(numbers={**numbers, "wanted": Scale.measured(rows).to_json()})
        labels = sorted({str(example.wanted) for example in train})
        if len(labels) < 2:
            raise RegardError(f"data.train has only the label {labels[0]!r}; two or more are needed")
        return Codec(labels=tuple(labels), numbers=numbers)

    # learning

    def module(self, model: ModelConfig) -> nn.Module:
        outputs = len(self.labels) if self.outputs is None else len(self.outputs.mean)
        if self.scale is None:
            return models.from_config(model, vocabulary=len(self.words) + 1, outputs=outputs)
        return models.from_config(model, features=len(self.scale.mean), outputs=outputs)

    def batches(
        self, examples: list[SetExample], setting: Setting[SetsData], work: Work, *, name: str
    ) -> Stream[SetBatch]:
        sets = self._flat(
            [each.elements for each in examples], [each.place for each in examples], self._wanted(examples)
        )
        return SetStream(sets, batch_size=setting.batch_size, cells=CELLS, seed=setting.seed, share=work.share)

    def loss(self, model: nn.Module, batch: SetBatch, *, plain: bool = False) -> Tensor:
        """Summed over the labels, or over the numbers."""
        found = model(batch.elements, batch.lengths)
        if self.outputs is None:
            smoothing = 0.0 if plain else self.smoothing
            return F.cross_entropy(found, batch.wanted, label_smoothing=smoothing, reduction="sum")
        return (F.mse_loss if self.squared else F.l1_loss)(found, batch.wanted, reduction="sum")

    # judging

    def objective(self, splits: Splits[list[SetExample]]) -> Objective:
        return Objective("accuracy", higher=True) if self.outputs is None else Objective("mae")

    def quick_exam(self, valid: list[SetExample], batches: Stream[SetBatch]) -> Exam:
        some = valid if len(valid) <= QUICK else random.Random(0).sample(valid, QUICK)
        return self.exam(some, RunOptions())

    def exam(self, examples: list[SetExample], options: RunOptions, *, tokenize: str = "13a") -> Exam:
        wanted = self._wanted(examples)
        sets = self._flat([each.elements for each in examples], [each.place for each in examples], wanted)
        return Exam(f"{len(examples):,} sets", lambda model: self._scores(self._said(model, sets), wanted))

    def _scores(
        self, said: NDArray[numpy.float32], wanted: NDArray[numpy.int64] | NDArray[numpy.float32]
    ) -> dict[str, Score]:
        if self.outputs is None:
            share = float((said.argmax(1) == wanted).mean())
            hits = shares(said.argmax(1) == wanted)
            return {"accuracy": Score(100 * share, f"percent of {len(wanted)} sets", hits)}
        errors = (said.astype(numpy.float64) - wanted) * self.outputs.spread
        rows = errors.reshape(len(wanted), -1)
        near, squares = means(numpy.abs(rows).mean(1)), means((rows**2).mean(1), form="root")
        root = float(numpy.sqrt((errors**2).mean()))
        return {
            "mae": Score(float(numpy.abs(errors).mean()), f"mean absolute error over {len(wanted)} sets", near),
            "rmse": Score(root, f"root mean square error over {len(wanted)} sets", squares),
        }

    # answering and looking

    def answer(self, model: nn.Module, asked: Sequence[Elements], options: RunOptions) -> list[Answer]:
        nothing = numpy.zeros(len(asked), dtype=numpy.int64)
        said = self._said(model, self._flat(asked, [f"set {number + 1}" for number in range(len(asked))], nothing))
        if self.outputs is not None:
            numbers: list[Answer] = list(self.outputs.numbers(said).tolist())
            return numbers
        return [self._ranked(row) for row in torch.from_numpy(said).softmax(-1).tolist()]

    def _ranked(self, shares: Sequence[float]) -> list[Label]:
        ranked = sorted(zip(self.labels, shares, strict=True), key=lambda pair: -pair[1])
        return [{"label": label, "score": share} for label, share in ranked]

    def sight(self, model: nn.Module, asked: Elements, look: Looking) -> Sight:
        """The elements as the model reads them, and what they were pooled to."""
        assert isinstance(model, ReadsSets)
        (answer,) = self.answer(model, [asked], RunOptions())
        (said,) = self.surface.lines(answer, RunOptions())
        flat = self._flat([asked], ["the set"], numpy.zeros(1, dtype=numpy.int64))
        batch = flat.batch(numpy.zeros(1, dtype=numpy.int64)).to(next(model.parameters()).device)
        given = (batch.elements, batch.lengths)

        def logits(places: Tensor | None) -> Tensor:
            count = 1 if places is None else len(places)
            return model(*(each.expand(count, *each.shape[1:]) for each in given))

        title = line_of(asked)
        more = {"pooled": Side((said.partition("\t")[0] if self.labels else said.replace("\t", ", "),))}
        if model.inducing:
            names = tuple(f"inducing {number + 1}" for number in range(model.inducing))
            more["inducing"] = Side(names, kind="steps")
        sight = Sight(
            title=title if self.labels else f"{title} → {more['pooled'].items[0]}",
            source=Side(names_of(asked), text=title),
            logits=logits,
            given=given,
            read=lambda *inputs: model(*inputs),
            sides=model.looks,
            embedding=model.element,
            more=more,
        )
        return self._choosing(sight, look.reference)

    def _choosing(self, sight: Sight, reference: str | None) -> Sight:
        """The sight with the choice of a label; `reference` is a label to choose instead of the most probable."""
        if not self.labels:
            if reference is not None:
                raise RegardError(f"reference={reference!r}: this model answers with numbers; leave it out")
            return sight
        if reference is not None and reference not in self.labels:
            raise RegardError(f"reference={reference!r} cannot be chosen here; there are {listed(self.labels)}")
        return replace(
            sight,
            outcome=lambda chosen: (Side((self.labels[chosen[0]],)), self.labels[chosen[0]]),
            names=lambda _at, numbers: [self.labels[number] for number in numbers],
            chosen=None if reference is None else [self.labels.index(reference)],
        )

    # from elements to arrays and back

    def _said(self, model: nn.Module, sets: FlatSets) -> NDArray[numpy.float32]:
        """What the model says of each set, in order (S, O)."""
        device, more = next(model.parameters()).device, counter(len(sets.sizes))

        def said(batch: SetBatch) -> Iterator[tuple[int, list[float]]]:
            there = batch.to(device)
            with torch.no_grad():
                rows = model(there.elements, there.lengths).float().tolist()
            more(len(batch.rows))
            return zip(map(int, batch.rows), rows, strict=True)

        found = sorted(spread(sets.by_size(cells=CELLS), said))
        return numpy.array([row for _, row in found] or numpy.zeros((0, 1)), dtype=numpy.float32)

    def _wanted(self, examples: Sequence[SetExample]) -> NDArray[numpy.int64] | NDArray[numpy.float32]:
        """The numbers of the labels (S,), or the numbers that are wanted, on their scale (S, O)."""
        if self.outputs is not None:
            size = len(self.outputs.mean)
            for each in examples:
                if isinstance(each.wanted, str) or len(each.wanted) != size:
                    raise RegardError(
                        f"{each.place} wants {each.wanted!r}, and data.train wants {_numbers(size)} of each set"
                    )
            return self.outputs.units(numpy.array([each.wanted for each in examples], dtype=numpy.float64))
        known = {label: number for number, label in enumerate(self.labels)}
        for each in examples:
            if each.wanted not in known:
                raise RegardError(
                    f"{each.place} has the label {each.wanted!r}, which is not in data.train; it has {listed(known)}"
                )
        return numpy.array([known[str(each.wanted)] for each in examples], dtype=numpy.int64)

    def _flat(
        self,
        sets: Sequence[Elements],
        places: Sequence[str],
        wanted: NDArray[numpy.int64] | NDArray[numpy.float32],
    ) -> FlatSets:
        sizes = numpy.array([len(each) for each in sets], dtype=numpy.int64)
        if self.scale is None:
            return FlatSets(self._ids(sets, places), sizes, wanted)
        features = len(self.scale.mean)
        for elements, place in zip(sets, places, strict=True):
            if isinstance(elements, tuple) or elements.shape[1] != features:
                raise RegardError(
                    f"{place} holds {_kind(elements)}, and this model reads sets of {_kind(None, features)}"
                )
        return FlatSets(self.scale.units(numpy.concatenate(sets)), sizes, wanted)

    def _ids(self, sets: Sequence[Elements], places: Sequence[str]) -> NDArray[numpy.int64]:
        """The number of each word, 0 for words that are not known. A warning says how many are not."""
        words = [word for elements, place in zip(sets, places, strict=True) for word in _words(elements, place)]
        ids = numpy.array([self.words.get(word, 0) for word in words], dtype=numpy.int64)
        if unknown := int((ids == 0).sum()):
            warnings.warn(
                f"{unknown:,} of {len(ids):,} elements are not known from training and say nothing", stacklevel=2
            )
        return ids


def _words(elements: Elements, place: str) -> tuple[str, ...]:
    """The elements as words; whole numbers may be words."""
    if isinstance(elements, tuple):
        return elements
    if elements.shape[1] > 1 or (elements % 1).any():
        raise RegardError(f"{place} holds {_kind(elements)}, and this model reads sets of texts")
    return tuple(str(int(number)) for number in elements[:, 0])


def _require_alike(examples: Sequence[SetExample]) -> None:
    """Refuse examples that differ from the first in what their sets hold, or in what is wanted."""
    first = examples[0]
    for each in examples:
        if _kind(each.elements) != _kind(first.elements):
            raise RegardError(
                f"{each.place} holds {_kind(each.elements)} and {first.place} holds {_kind(first.elements)}; all sets "
                "must be alike"
            )
        if _said_of(each) != _said_of(first):
            raise RegardError(
                f"{each.place} has {_said_of(each)} and {first.place} has {_said_of(first)}; all labels must be alike"
            )


def _kind(elements: Elements | None, features: int = 0) -> str:
    """What a set holds, for a sentence."""
    if isinstance(elements, tuple):
        return "texts"
    features = features if elements is None else elements.shape[1]
    return "numbers" if features == 1 else f"vectors of {_numbers(features)}"


def _said_of(example: SetExample) -> str:
    return "a text as its label" if isinstance(example.wanted, str) else f"{_numbers(len(example.wanted))} to be said"


def _numbers(count: int) -> str:
    return "1 number" if count == 1 else f"{count} numbers"
