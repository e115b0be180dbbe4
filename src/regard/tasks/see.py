"""The input is a picture, the output is a label.

loss    −log P(label | picture), with smoothing and mixup: −Σ_k share_k log P(label_k | picture)
scores  accuracy, with more than five labels also top-5 accuracy, and the mean recall of the labels

B batch  C channels  H height  W width
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Self

import numpy
import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from regard import models
from regard.checking import Settings, check
from regard.data.pictures.augment import Augment
from regard.data.pictures.batches import PictureBatch, PictureStream
from regard.data.pictures.frames import MOST, Fit, frame_for
from regard.data.pictures.labelled import Pictures, sorted_labels
from regard.data.pictures.reading import Pixels
from regard.data.pictures.sources import Columns, read_entry
from regard.data.splits import DataTable, Splits, hold_out
from regard.errors import RegardError, cut, listed
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
    Task,
    Work,
)
from regard.tasks.counting import counter
from regard.tasks.modules import DrawsPlaces, EmbedsPatches, SeesPictures
from regard.tasks.parts import counted, shares
from regard.tasks.pictures import Asked, Measured, shown_as, side_of
from regard.tasks.surfaces import Label, LabelsOut, ranked
from regard.tasks.together import together

TOGETHER = 128  # pictures answered together
TOP = 5
Pixel = Annotated[int, Field(ge=1, le=MOST)]  # the length of a side in pixels


class PictureColumns(Settings):
    """Where an example stands in a row of a table: names, or numbers counted from 1; found in the file if not given."""

    path: PositiveInt | str | None = None
    label: PositiveInt | str | None = None


class PictureData(DataTable):
    """[data] of see."""

    train: object = Field(None, description="a folder, a table of paths, .npz, or IDX files")
    valid: object = Field(None, description="as train; without it, pictures are held out of train")
    test: object = Field(None, description="as train")
    size: Pixel | list[Pixel] | None = Field(
        None, description="pixels of a side, or [rows, columns]; the size of the pictures, else 64"
    )
    channels: Annotated[int, Field(ge=1, le=3)] | None = Field(None, description="1 grey, 3 colours; as the pictures")
    fit: Fit = Field("crop", description="how a picture of another size is fitted: crop or stretch")
    classes: list[str] = Field(default_factory=list, description="the names of labels that are numbers, from 0 on")
    hold_out: PositiveInt | float | None = Field(None, description="pictures held out: a number or a share; 2 %")
    columns: PictureColumns = Field(default_factory=PictureColumns, description="which columns of a table")
    augment: Augment = Field(default_factory=Augment, description="random changes while learning")


class Seeing(LabelsOut[Asked]):
    """The input is a picture; the output is every label with its probability, the most probable first."""

    pipeline = "image-classification"
    example = "photo.jpg"
    files = True
    together = TOGETHER

    def parse(self, line: str) -> Asked:
        return Asked(line)

    def from_json(self, body: object) -> Asked:
        return Asked.from_json(body)

    def from_request(self, body: object) -> Asked:
        return Asked.from_request(body)


class See(Task[PictureData, Pictures, Asked, list[Label], PictureBatch]):
    """The task."""

    forms = ("pictures",)
    honours = frozenset({"training.batch_size", "training.label_smoothing"})
    data = PictureData
    surface = Seeing()

    def __init__(
        self, labels: Sequence[str], measured: Measured, *, smoothing: float = 0.0, augment: Augment | None = None
    ) -> None:
        self.labels, self.measured, self.smoothing = tuple(labels), measured, smoothing
        self.augment = augment or Augment()

    @classmethod
    def from_setting(cls, setting: Setting[PictureData], codec: Codec) -> Self:
        measured = check(Measured, dict(codec.numbers), where="numbers.json")
        return cls(codec.labels, measured, smoothing=setting.label_smoothing, augment=setting.data.augment)

    @classmethod
    def read(cls, entry: object, data: PictureData, *, key: str) -> Pictures:
        columns = Columns(data.columns.path, data.columns.label)
        return read_entry(entry, key=key, columns=columns, classes=data.classes)

    @classmethod
    def open(cls, setting: Setting[PictureData], work: Work | None) -> Splits[Pictures]:
        data = setting.data
        train = cls.read(data.train, data, key="data.train")
        test = cls.read(data.test, data, key="data.test") if data.test else None
        if data.valid:
            return Splits(train, cls.read(data.valid, data, key="data.valid"), test)
        keys = [train.key(number) for number in range(len(train))]
        apart = hold_out(keys, amount=data.hold_out, seed=setting.seed)
        held = [key in apart for key in keys]
        kept, out = ([number for number, away in enumerate(held) if away is wanted] for wanted in (False, True))
        return Splits(train.take(kept), train.take(out), test)

    @classmethod
    def lines(cls, examples: Pictures) -> Iterator[str]:
        return (examples.place(number) for number in range(len(examples)))

    @classmethod
    def learn(cls, setting: Setting[PictureData], train: Pictures, body: Codec | None) -> Codec:
        labels, data = sorted_labels(train.labels), setting.data
        if len(labels) < 2:
            raise RegardError(f"data.train has only the label {labels[0]!r}; a classifier needs two or more")
        frame = frame_for(train.looks(), size=data.size, channels=data.channels, fit=data.fit)
        measured = Measured.of(train.pixels(frame), frame)
        return Codec(labels=labels, numbers=measured.model_dump(mode="json"))

    def module(self, model: ModelConfig) -> nn.Module:
        frame = self.measured.frame
        return models.from_config(
            model, channels=frame.channels, rows=frame.rows, columns=frame.columns, outputs=len(self.labels)
        )

    def batches(self, examples: Pictures, setting: Setting[PictureData], work: Work, *, name: str) -> PictureStream:
        learning = name == "train"
        return PictureStream(
            examples.pixels(self.measured.frame, work.folder),
            self._numbers(examples),
            batch_size=setting.batch_size,
            seed=setting.seed,
            share=work.share,
            augment=self.augment if learning else None,
        )

    def _numbers(self, examples: Pictures) -> list[int]:
        """The number of each picture's label. A label that is not in the training data is an error."""
        known = {label: number for number, label in enumerate(self.labels)}
        for number, label in enumerate(examples.labels):
            if label not in known:
                place = examples.place(number)
                raise RegardError(
                    f"{place} has the label {cut(label)!r}, which is not in data.train; it has {listed(self.labels)}"
                )
        return [known[label] for label in examples.labels]

    def loss(self, model: nn.Module, batch: PictureBatch, *, plain: bool = False) -> Tensor:
        """The cross-entropy, summed over the pictures."""
        pictures, smoothing = self.measured.prepared(batch.pictures), 0.0 if plain else self.smoothing
        drawn = model.drawn(pictures) if isinstance(model, DrawsPlaces) and not plain else None
        logits = model(pictures) if drawn is None else drawn.logits  # (K·B, labels)
        paths = len(logits) // len(pictures)  # K > 1: each picture was looked at K times
        parts = [
            F.cross_entropy(logits, wanted.repeat(paths), label_smoothing=smoothing, reduction="none")
            * share.repeat(paths)
            for wanted, share in zip(batch.wanted.unbind(1), batch.shares.unbind(1), strict=True)
        ]
        losses = torch.stack(parts).sum(0)  # (K·B,)
        return (losses.sum() if drawn is None else losses.sum() + drawn.surrogate(losses)) / paths

    def objective(self, splits: Splits[Pictures]) -> Objective:
        return Objective("accuracy", higher=True)

    def quick_exam(self, valid: Pictures, batches: object) -> Exam:
        return self.exam(valid, RunOptions())

    def exam(self, examples: Pictures, options: RunOptions, *, tokenize: str = "13a") -> Exam:
        wanted = torch.tensor(self._numbers(examples))
        return Exam(f"{len(examples):,} pictures", lambda model: self._scores(model, examples, wanted))

    def _scores(self, model: nn.Module, examples: Pictures, wanted: Tensor) -> dict[str, Score]:
        said = torch.tensor(together(examples.pixels(self.measured.frame), lambda some: self._best(model, some)))
        right = said[:, 0] == wanted
        hits = shares(right.tolist())
        scores = {"accuracy": Score(100 * float(right.float().mean()), f"percent of {len(right)} pictures", hits)}
        if len(self.labels) > TOP:
            near = (said[:, 1:] == wanted.unsqueeze(1)).any(1)
            how = "percent with the label among the first five"
            scores["top5"] = Score(100 * float(near.float().mean()), how, shares(near.tolist()))
        recalls = [float(right[wanted == number].float().mean()) for number in wanted.unique().tolist()]
        there = F.one_hot(wanted, len(self.labels))  # (N, labels)
        each = counted(torch.stack([there * right.unsqueeze(1), there], 2).flatten(1).tolist(), form="mean")
        scores["recall"] = Score(100 * sum(recalls) / len(recalls), "mean of the labels, in percent", each)
        return scores

    def _best(self, model: nn.Module, pictures: Pixels) -> list[list[int]]:
        """The number of the best label of each picture, and those of the best `TOP`: 1 + TOP each, or fewer."""
        logits = self._logits(model, pictures)
        top = logits.topk(min(TOP, logits.shape[1]), 1).indices
        return torch.cat([logits.argmax(1, keepdim=True), top], 1).tolist()

    def _logits(self, model: nn.Module, pictures: Pixels) -> Tensor:
        """The logits of pictures (N, H, W, C), many at a time, without gradients: (N, labels)"""
        device, more, found = next(model.parameters()).device, counter(len(pictures)), []
        for begin in range(0, len(pictures), TOGETHER):
            some = torch.from_numpy(numpy.array(pictures[begin : begin + TOGETHER])).permute(0, 3, 1, 2)
            with torch.no_grad():
                found.append(model(self.measured.prepared(some.to(device))).float().cpu())
            more(len(some))
        return torch.cat(found)

    def answer(self, model: nn.Module, asked: Sequence[Asked], options: RunOptions) -> list[list[Label]]:
        if not asked:
            return []
        pictures = numpy.stack([each.pixels(self.measured.frame) for each in asked])
        return [ranked(self.labels, shares) for shares in self._logits(model, pictures).softmax(1).tolist()]

    def sight(self, model: nn.Module, asked: Asked, look: Looking) -> Sight:
        """The patches that the model reads, and the label that it chooses."""
        assert isinstance(model, SeesPictures), "the kinds of the form `pictures` are"
        pixels = asked.pixels(self.measured.frame)
        given = torch.from_numpy(pixels.copy()).permute(2, 0, 1).unsqueeze(0).to(next(model.parameters()).device)
        picture, grids = shown_as(pixels), model.grids()
        sides = {name: side_of(grid, picture, asked.name) for name, grid in grids.items()}

        def read(pictures: Tensor) -> Tensor:
            return model(self.measured.prepared(pictures))

        return Sight(
            title=asked.name,
            source=sides.pop("source"),
            logits=lambda places: read(given if places is None else given.expand(len(places), -1, -1, -1)),
            given=(given,),
            read=read,
            sides=model.looks,
            embedding=model.embedding if isinstance(model, EmbedsPatches) else None,
            outcome=lambda chosen: (
                Side((self.labels[chosen[0]],), text=self.labels[chosen[0]]),
                self.labels[chosen[0]],
            ),
            names=lambda _at, numbers: [self.labels[number] for number in numbers],
            chosen=self._chosen(look, lambda: read(given)),
            places=(0,) if grids["source"].extra else (),
            more=sides,
        )

    def _chosen(self, look: Looking, read: Callable[[], Tensor]) -> list[int] | None:
        """The number of a label that is to be chosen; for statistics, which compute no answer, the model's own."""
        if look.reference is None:
            with torch.no_grad():
                return read().argmax(1).tolist() if look.fast else None
        if look.reference not in self.labels:
            raise RegardError(f"reference={look.reference!r} cannot be chosen here; there are {listed(self.labels)}")
        return [self.labels.index(look.reference)]
