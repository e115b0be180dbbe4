"""The input is a picture, the output is a label.

loss    −log P(label | picture), with smoothing and mixup: −Σ_k share_k log P(label_k | picture)
scores  accuracy, with more than five labels also top-5 accuracy, and the mean recall of the labels

B batch  C channels  H height  W width
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Self, cast

import numpy
import torch
from PIL import Image
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from regard import models
from regard.checking import Settings, check
from regard.data.pictures.augment import Augment
from regard.data.pictures.batches import PictureBatch, PictureStream
from regard.data.pictures.frames import MOST, Fit, Frame, frame_for
from regard.data.pictures.reading import Pixels, framed, quietly
from regard.data.pictures.sources import Columns, Pictures, image_of, picture_at, read_entry, sorted_labels
from regard.data.splits import DataTable, Splits, hold_out
from regard.errors import RegardError, cut, listed, shown
from regard.models.facts import Grid, ModelConfig
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
from regard.tasks.modules import DrawsPlaces, EmbedsPatches, SeesPictures
from regard.tasks.surfaces import Label, ranked

TOGETHER = 128  # pictures answered together
MEASURED = 20_000  # pictures that mean and deviation are measured on
TOP = 5
ENLARGED = 224  # pixels of the longer side of a picture that is shown, if it is smaller
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


class Measured(Settings):
    """What was measured on the training data: numbers.json."""

    rows: PositiveInt
    columns: PositiveInt
    channels: Annotated[int, Field(ge=1, le=4)]
    fit: Fit = "crop"
    filter: Annotated[str, Field(pattern="^(bilinear|bicubic)$")] = "bilinear"
    mean: list[float]  # of each channel, from 0 to 1
    deviation: list[Annotated[float, Field(gt=0)]]

    @property
    def frame(self) -> Frame:
        return Frame(self.rows, self.columns, self.channels, self.fit, cast(Any, self.filter))


@dataclass(frozen=True)
class Asked:
    """A picture to answer about: the name of its file, or the picture itself."""

    name: str
    image: Image.Image | None = None

    def pixels(self, frame: Frame) -> Pixels:
        """(H, W, C)"""
        if self.image is None:
            return picture_at(self.name, frame)
        with quietly():
            return framed(self.image, self.name, frame)


class Seeing(Surface[Asked, list[Label]]):
    """The input is a picture; the output is every label with its probability, the most probable first."""

    answers = "labels"
    example = "photo.jpg"
    files = True
    together = TOGETHER

    def parse(self, line: str) -> Asked:
        return Asked(line)

    def from_json(self, body: object) -> Asked:
        """The path of a picture, {"path": …}, a picture of Pillow's, or an array (H, W) or (H, W, C)."""
        if isinstance(body, Asked):
            return body
        if isinstance(body, Mapping):
            body = body.get("path")
        if isinstance(body, str | Path):
            return Asked(str(body))
        if isinstance(body, Image.Image):
            return Asked("the picture", body)
        if isinstance(body, numpy.ndarray):
            return Asked("the picture", image_of(body, "the array"))
        raise RegardError(f"give the path of a picture, a picture of Pillow's or an array, and not {shown(body)}")

    def lines(self, answer: list[Label], options: RunOptions) -> list[str]:
        return [f"{answer[0]['label']}\t{answer[0]['score']:.4f}"]


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
            raise RegardError(f"data.train has the label {labels[0]!r} alone; a classifier needs two or more")
        frame = frame_for(train.looks(), size=data.size, channels=data.channels, fit=data.fit)
        mean, deviation = measure(train.pixels(frame))
        numbers = Measured(**frame._asdict(), mean=mean, deviation=deviation)
        return Codec(labels=labels, numbers=numbers.model_dump(mode="json"))

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
                    f"{place} has the label {cut(label)!r}, which data.train has not; it has {listed(self.labels)}"
                )
        return [known[label] for label in examples.labels]

    def prepared(self, pictures: Tensor) -> Tensor:
        """Bytes (B, C, H, W) → numbers with mean 0 and deviation 1 in each channel of the training data"""
        mean, deviation = (
            255 * pictures.new_tensor(each, dtype=torch.float32).view(-1, 1, 1)
            for each in (self.measured.mean, self.measured.deviation)
        )
        return pictures.float().sub_(mean).div_(deviation)

    def loss(self, model: nn.Module, batch: PictureBatch, *, plain: bool = False) -> Tensor:
        """The cross-entropy, summed over the pictures."""
        pictures, smoothing = self.prepared(batch.pictures), 0.0 if plain else self.smoothing
        drawn = model.drawn(pictures) if isinstance(model, DrawsPlaces) and not plain else None
        logits = model(pictures) if drawn is None else drawn.logits  # (B, labels)
        parts = [
            F.cross_entropy(logits, wanted, label_smoothing=smoothing, reduction="none") * share
            for wanted, share in zip(batch.wanted.unbind(1), batch.shares.unbind(1), strict=True)
        ]
        losses = torch.stack(parts).sum(0)  # (B,)
        return losses.sum() if drawn is None else losses.sum() + drawn.surrogate(losses)

    def objective(self, splits: Splits[Pictures]) -> Objective:
        return Objective("accuracy", higher=True)

    def quick_exam(self, valid: Pictures, batches: object) -> Exam:
        return self.exam(valid, RunOptions())

    def exam(self, examples: Pictures, options: RunOptions, *, tokenize: str = "13a") -> Exam:
        wanted = torch.tensor(self._numbers(examples))
        return Exam(f"{len(examples):,} pictures", lambda model: self._scores(model, examples, wanted))

    def _scores(self, model: nn.Module, examples: Pictures, wanted: Tensor) -> dict[str, Score]:
        logits = self._logits(model, examples.pixels(self.measured.frame))
        right = logits.argmax(1) == wanted
        scores = {"accuracy": Score(100 * float(right.float().mean()), f"percent of {len(right)} pictures")}
        if len(self.labels) > TOP:
            near = (logits.topk(TOP, 1).indices == wanted.unsqueeze(1)).any(1)
            scores["top5"] = Score(100 * float(near.float().mean()), "percent with the label among the first five")
        recalls = [float(right[wanted == number].float().mean()) for number in wanted.unique().tolist()]
        scores["recall"] = Score(100 * sum(recalls) / len(recalls), "mean of the labels, in percent")
        return scores

    def _logits(self, model: nn.Module, pictures: Pixels) -> Tensor:
        """The logits of pictures (N, H, W, C), many at a time, without gradients: (N, labels)"""
        device, more, found = next(model.parameters()).device, counter(len(pictures)), []
        for begin in range(0, len(pictures), TOGETHER):
            some = torch.from_numpy(numpy.array(pictures[begin : begin + TOGETHER])).permute(0, 3, 1, 2)
            with torch.no_grad():
                found.append(model(self.prepared(some.to(device))).float().cpu())
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
            return model(self.prepared(pictures))

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


def measure(pictures: Pixels) -> tuple[list[float], list[float]]:
    """Mean and deviation of each channel, from 0 to 1, over some pictures from beginning to end: (N, H, W, C) → C, C"""
    some = numpy.linspace(0, len(pictures) - 1, min(MEASURED, len(pictures))).astype(int)
    total = squares = numpy.zeros(pictures.shape[3])
    for part in numpy.array_split(some, -(-len(some) // 1000)):
        values = pictures[part].reshape(-1, pictures.shape[3]) / 255.0
        total, squares = total + values.sum(0), squares + (values**2).sum(0)
    count = len(some) * pictures.shape[1] * pictures.shape[2]
    mean = total / count
    deviation = numpy.sqrt((squares / count - mean**2).clip(min=0))
    return mean.tolist(), numpy.where(deviation > 1e-6, deviation, 1.0).tolist()


def side_of(grid: Grid, picture: str, text: str) -> Side:
    """A grid over a picture, as a side of a record; without places, the steps that its tokens are."""
    if grid.rows * grid.columns == 0:
        return Side(grid.extra, "steps")
    places = (f"{row + 1}, {column + 1}" for row in range(grid.rows) for column in range(grid.columns))
    return Side((*grid.extra, *places), "patches", text=text, rows=grid.rows, columns=grid.columns, picture=picture)


def shown_as(pixels: Pixels) -> str:
    """A picture (H, W, C) as a data URL of a PNG, enlarged by a whole number if it is small."""
    image = image_of(pixels, "the picture")
    factor = max(ENLARGED // max(image.size), 1)
    file = BytesIO()
    image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
