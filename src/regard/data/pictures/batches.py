"""Pictures → batches of bytes, in an order that depends on the seed and the epoch alone.

B batch  C channels  H height  W width  K labels of one picture: 1, or 2 where pictures are mixed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy
import torch
from torch import Tensor

from regard.data.pictures.augment import Augment, mixed
from regard.data.pictures.reading import Pixels
from regard.data.planning import Rows
from regard.data.streams import WHOLE, Share, Stream, TensorBatch

LOOKED_AT = 1000  # pictures whose bytes are in a checksum


@dataclass(frozen=True)
class PictureBatch(TensorBatch):
    """A batch of pictures.

    pictures  (B, C, H, W)   bytes
    wanted    (B, K)         the numbers of the labels
    shares    (B, K)         how much of a picture has each label
    """

    pictures: Tensor
    wanted: Tensor
    shares: Tensor

    @property
    def targets(self) -> int:
        """One for each picture."""
        return len(self.pictures)

    @property
    def size(self) -> int:
        return len(self.pictures)


class PictureStream(Stream[PictureBatch]):
    """The batches of pictures (N, H, W, C) whose labels have the numbers `wanted` (N,)."""

    unit = "pictures"

    def __init__(
        self,
        pictures: Pixels,
        wanted: Sequence[int],
        *,
        batch_size: int,
        seed: int,
        share: Share = WHOLE,
        augment: Augment | None = None,
    ) -> None:
        self.pictures, self.wanted = pictures, numpy.asarray(wanted, dtype=numpy.int64)
        self.batch_size, self.seed, self.share = batch_size, seed, share
        self.augment = augment or Augment()

    @property
    def checksum(self) -> str:
        """Of all labels, and of some pictures from beginning to end."""
        some = self.pictures[numpy.linspace(0, len(self.pictures) - 1, min(LOOKED_AT, len(self.pictures))).astype(int)]
        digest = sha256(str(self.pictures.shape).encode())
        digest.update(self.wanted.tobytes())
        digest.update(numpy.ascontiguousarray(some).tobytes())
        return digest.hexdigest()

    def describe(self) -> list[str]:
        count, rows, columns, channels = self.pictures.shape
        return [f"{count:,} pictures of {columns} × {rows} pixels, {'grey' if channels == 1 else 'in colour'}"]

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[PictureBatch]:
        order = numpy.random.default_rng([self.seed, epoch]).permutation(len(self.wanted))
        planned: list[Rows] = [
            order[begin : begin + self.batch_size] for begin in range(0, len(order), self.batch_size)
        ]
        for place, numbers, idle in self.share.groups(planned, position):
            generator = numpy.random.default_rng([self.seed, epoch, self.share.rank, place])
            yield replace(self._changed(numbers, generator), epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[PictureBatch]:
        for begin in range(0, len(self.wanted), self.batch_size):
            end = begin + self.batch_size
            wanted = torch.from_numpy(self.wanted[begin:end]).unsqueeze(1)
            pictures = torch.from_numpy(numpy.array(self.pictures[begin:end]))
            yield PictureBatch(pictures.permute(0, 3, 1, 2), wanted, torch.ones(wanted.shape))

    def _changed(self, numbers: Rows, generator: numpy.random.Generator) -> PictureBatch:
        """The pictures of these numbers, as a model learns from them."""
        pictures = self.augment.apply(torch.from_numpy(self.pictures[numbers]), generator)
        wanted = torch.from_numpy(self.wanted[numbers])
        labels, shares = wanted.unsqueeze(1), torch.ones(len(wanted), 1)
        if self.augment.mixup:
            pictures, labels, shares = mixed(pictures, wanted, self.augment.mixup, generator)
        return PictureBatch(pictures.permute(0, 3, 1, 2), labels, shares)
