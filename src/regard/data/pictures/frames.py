"""What all pictures of a data set are brought to before a model reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from regard.errors import RegardError

Fit = Literal["crop", "stretch"]
Filter = Literal["bilinear", "bicubic"]
SIDE = 64  # pixels of both sides, where pictures have several sizes
MOST = 4096  # pixels of a side that a model may read


class Frame(NamedTuple):
    """The size of pictures in pixels, their channels (1 grey, 3 colours), and how a picture of another size is fitted.

    "crop" scales it until it covers the frame, and cuts off what is outside on both sides alike; "stretch" scales both
    sides to those of the frame.
    """

    rows: int
    columns: int
    channels: int
    fit: Fit = "crop"
    filter: Filter = "bilinear"

    @property
    def size(self) -> int:
        """The numbers of one picture."""
        return self.rows * self.columns * self.channels


class Looks(NamedTuple):
    """What the header of a picture file says: its size after rotation, and its channels."""

    rows: int
    columns: int
    channels: int


def frame_for(
    looks: Iterable[Looks], *, size: int | Sequence[int] | None, channels: int | None, fit: Fit = "crop"
) -> Frame:
    """The frame of pictures that look so: the size they all have, or else 64 × 64; grey if all of them are grey."""
    counted = Counter(looks)
    if not counted:
        raise RegardError("there is no picture, so there is no size; name another folder or file")
    sizes = {(each.rows, each.columns) for each in counted}
    if size is None:
        rows, columns = next(iter(sizes)) if len(sizes) == 1 else (SIDE, SIDE)
        if max(rows, columns) > MOST:
            raise RegardError(f"the pictures have {columns} × {rows} pixels; choose a smaller data.size, such as 224")
    elif isinstance(size, int):
        rows = columns = size
    elif len(size) == 2:
        rows, columns = size
    else:
        raise RegardError(f"data.size = {list(size)} must be one number, or [rows, columns]")
    return Frame(rows, columns, channels or max(each.channels for each in counted), fit)
