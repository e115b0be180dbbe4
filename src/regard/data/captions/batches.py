"""Pictures and captions become batches of tensors.

B batch  C channels  H height  W width  T longest caption
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Self

import numpy
import torch
from torch import Tensor

from regard.data.pictures.reading import Pixels
from regard.data.planning import Rows
from regard.data.streams import WHOLE, Share, Stream, TensorBatch
from regard.special import Special


@dataclass(frozen=True)
class CaptionBatch(TensorBatch):
    """A batch of pictures, each with one caption.

    pictures  (B, C, H, W)  bytes
    target    (B, 1 + T)    BOS, ids, EOS, then PAD
    lengths   (B,)          the number of ids and EOS of each caption
    targets                 the number of ids and EOS to predict
    rows                    the numbers of the captions
    """

    pictures: Tensor
    target: Tensor
    lengths: Tensor
    targets: int
    rows: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.target)

    def part(self, rows: slice) -> Self:
        return replace(super().part(rows), targets=int(self.lengths[rows].sum()))


class CaptionStream(Stream[CaptionBatch]):
    """Batches of pictures (N, H, W, C), of which caption n, the ids `captions[n]`, belongs to picture `owners[n]`."""

    def __init__(
        self,
        pictures: Pixels,
        captions: Sequence[Sequence[int]],
        owners: Sequence[int],
        *,
        batch_size: int,
        seed: int,
        special: Special,
        share: Share = WHOLE,
    ) -> None:
        self.pictures, self.captions, self.owners = pictures, captions, numpy.array(owners, dtype=numpy.int64)
        self.batch_size, self.seed, self.special, self.share = batch_size, seed, special, share

    @property
    def checksum(self) -> str:
        digest = sha256(repr((self.captions, self.owners.tolist(), self.pictures.shape)).encode())
        for begin in range(0, len(self.pictures), 1024):
            digest.update(self.pictures[begin : begin + 1024].tobytes())
        return digest.hexdigest()

    def describe(self) -> list[str]:
        _, rows, columns, channels = self.pictures.shape
        kind = "grey" if channels == 1 else "colour"
        return [f"{len(self.pictures):,} {kind} pictures of {columns} × {rows} pixels, {len(self.captions):,} captions"]

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[CaptionBatch]:
        order = numpy.random.default_rng([self.seed, epoch]).permutation(len(self.captions))
        for place, rows, idle in self.share.groups(self._divided(order), position):
            yield replace(self._batch(rows), epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[CaptionBatch]:
        """All captions once, in their order."""
        return map(self._batch, self._divided(numpy.arange(len(self.captions))))

    def _divided(self, order: Rows) -> list[Rows]:
        return [order[begin : begin + self.batch_size] for begin in range(0, len(order), self.batch_size)]

    def _batch(self, rows: Rows) -> CaptionBatch:
        ids = [self.captions[row] for row in rows.tolist()]
        target = numpy.full((len(ids), 2 + max(map(len, ids))), self.special.pad or 0, dtype=numpy.int64)
        target[:, 0] = self.special.bos
        for number, row in enumerate(ids):
            target[number, 1 : len(row) + 1] = row
            target[number, len(row) + 1] = self.special.eos
        return CaptionBatch(
            pictures=tensor_of(self.pictures[self.owners[rows]]),
            target=torch.from_numpy(target),
            lengths=torch.tensor([len(row) + 1 for row in ids]),
            targets=sum(map(len, ids)) + len(ids),
            rows=tuple(rows.tolist()),
        )


def tensor_of(pictures: Pixels) -> Tensor:
    """Pictures (B, H, W, C) as a tensor (B, C, H, W) of bytes."""
    return torch.from_numpy(numpy.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))
