"""What tasks on pictures share: the picture that is asked about, what was measured on all, and how one is shown.

N pictures  B batch  C channels  H height  W width
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, cast

import numpy
import torch
from PIL import Image
from pydantic import Field, PositiveInt
from torch import Tensor

from regard.checking import Settings
from regard.data.pictures.frames import Fit, Frame
from regard.data.pictures.reading import Pixels, framed, image_of, quietly, read_picture
from regard.data.pictures.sources import picture_at
from regard.errors import RegardError, shown
from regard.models.facts import Grid
from regard.tasks.base import Side

DATA_URL = re.compile(r"^data:[^,]{0,100};base64,")
MEASURED = 20_000  # pictures that mean and deviation are measured on
ENLARGED = 224  # pixels of the longer side of a picture that is shown, if it is smaller


class Measured(Settings):
    """What was measured on the training data: numbers.json."""

    rows: PositiveInt
    columns: PositiveInt
    channels: Annotated[int, Field(ge=1, le=4)]
    fit: Fit = "crop"
    filter: Annotated[str, Field(pattern="^(bilinear|bicubic)$")] = "bilinear"
    mean: list[float]  # of each channel, from 0 to 1
    deviation: list[Annotated[float, Field(gt=0)]]

    @classmethod
    def of(cls, pictures: Pixels, frame: Frame) -> Measured:
        """Mean and deviation of each channel, over some pictures (N, H, W, C) from beginning to end."""
        some = numpy.linspace(0, len(pictures) - 1, min(MEASURED, len(pictures))).astype(int)
        total = squares = numpy.zeros(pictures.shape[3])
        for part in numpy.array_split(some, -(-len(some) // 1000)):
            values = pictures[part].reshape(-1, pictures.shape[3]) / 255.0
            total, squares = total + values.sum(0), squares + (values**2).sum(0)
        count = len(some) * pictures.shape[1] * pictures.shape[2]
        mean = total / count
        deviation = numpy.sqrt((squares / count - mean**2).clip(min=0))
        return cls(
            **frame._asdict(), mean=mean.tolist(), deviation=numpy.where(deviation > 1e-6, deviation, 1.0).tolist()
        )

    @property
    def frame(self) -> Frame:
        return Frame(self.rows, self.columns, self.channels, self.fit, cast(Any, self.filter))

    def prepared(self, pictures: Tensor) -> Tensor:
        """Bytes (B, C, H, W) → numbers with mean 0 and deviation 1 in each channel of the training data"""
        mean, deviation = (
            255 * pictures.new_tensor(each, dtype=torch.float32).view(-1, 1, 1) for each in (self.mean, self.deviation)
        )
        return pictures.float().sub_(mean).div_(deviation)


@dataclass(frozen=True)
class Asked:
    """A picture to answer about: the name of its file, the picture itself, or the content of its file."""

    name: str
    image: Image.Image | None = None
    content: bytes | None = None

    @classmethod
    def from_json(cls, body: object) -> Asked:
        """The path of a picture, {"path": …}, a picture of Pillow's, or an array (H, W) or (H, W, C)."""
        if isinstance(body, Asked):
            return body
        if isinstance(body, Mapping):
            body = body.get("path")
        if isinstance(body, str | Path):
            return cls(str(body))
        if isinstance(body, Image.Image):
            return cls("the picture", body)
        if isinstance(body, numpy.ndarray):
            return cls("the picture", image_of(body, "the array"))
        raise RegardError(f"give the path of a picture, a picture of Pillow's or an array, and not {shown(body)}")

    @classmethod
    def from_request(cls, body: object) -> Asked:
        """A picture file in base64, with or without the beginning of a data URL, or {"picture": …} with one."""
        given = body.get("picture") if isinstance(body, Mapping) else body
        if not isinstance(given, str):
            raise RegardError(f'give {{"picture": a picture file in base64}}, and not {shown(body)}')
        try:
            content = base64.b64decode(DATA_URL.sub("", given, count=1), validate=True)
        except ValueError:
            raise RegardError("the picture is not in base64; send the bytes of a picture file in base64") from None
        return cls("the picture", content=content)

    @property
    def is_file(self) -> bool:
        """Whether the picture is to be read from the file of that name."""
        return self.image is None and self.content is None

    def pixels(self, frame: Frame) -> Pixels:
        """(H, W, C)"""
        if self.is_file:
            return picture_at(self.name, frame)
        with quietly():
            if self.image is None:
                return read_picture(self.content or b"", self.name, frame)
            return framed(self.image, self.name, frame)


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
