"""Framed texts become batches of tensors, by length, with padding at the end alone.

B batch  L longest text  W longest row of what is wanted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count, islice
from typing import Self

import numpy
import torch
from torch import Tensor

from regard.data.framing import IGNORED, Framed
from regard.data.planning import plan
from regard.data.prefetch import ahead
from regard.special import Special

AHEAD = 8  # batches prepared beforehand
Draw = Callable[[Framed, numpy.random.Generator], Framed]


@dataclass(frozen=True)
class TextBatch:
    """Some texts.

    tokens    (B, L)   ids, then PAD
    lengths   (B,)     tokens of each row
    segments  (B, L)   which text of the row a token is of
    wanted    (B, W)   what is to be predicted, IGNORED elsewhere
    targets            how much that is
    rows               which of the texts these are
    """

    tokens: Tensor
    lengths: Tensor
    segments: Tensor
    wanted: Tensor
    targets: int
    rows: tuple[int, ...]
    epoch: int = 0
    position: int = 0

    def to(self, device: torch.device | str) -> Self:
        names = ("tokens", "lengths", "segments", "wanted")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in names})


class TextBatches:
    """The batches of texts for training, the same for the same seed, epoch and position.

    `batch_tokens` bounds rows × longest text; a text longer than that is a batch by itself. `draw` makes something new
    of each text in each epoch.
    """

    unit = "targets"  # what is counted: labels, tags, places, gaps

    def __init__(
        self, texts: Sequence[Framed], *, batch_tokens: int, seed: int, special: Special, draw: Draw | None = None
    ) -> None:
        self.texts, self.seed, self.special, self.draw = texts, seed, special, draw
        self.lengths = numpy.array([len(text.ids) for text in texts], dtype=numpy.int64)
        self.batch_tokens = max(batch_tokens, int(self.lengths.max(initial=1)))

    @property
    def checksum(self) -> str:
        """Of the texts and what is wanted of them."""
        return sha256(repr(self.texts).encode()).hexdigest()

    def stream(self, *, epoch: int = 0, position: int = 0) -> Iterator[TextBatch]:
        """Batches without end from a place in training on, prepared by a thread while others are used."""
        epochs = (self.epoch(number, position=position if number == epoch else 0) for number in count(epoch))
        return ahead((batch for batches in epochs for batch in batches), depth=AHEAD)

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[TextBatch]:
        """The batches of one epoch, from the one at `position` on."""
        generator = numpy.random.default_rng([self.seed, epoch])
        planned = plan(self.lengths, self.lengths, budget=self.batch_tokens, generator=generator)
        order = generator.permutation(len(planned))
        for place, number in islice(enumerate(order.tolist()), position, None):
            rows = planned[number].tolist()
            texts = [self.texts[row] for row in rows]
            if self.draw is not None:
                texts = [
                    self.draw(text, numpy.random.default_rng([self.seed, epoch, row]))
                    for row, text in zip(rows, texts, strict=True)
                ]
            yield replace(_assemble(texts, rows, self.special), epoch=epoch, position=place)


def in_order_of_length(texts: Sequence[Framed], *, batch_tokens: int, special: Special) -> Iterator[TextBatch]:
    """Every text once, the longest first; `TextBatch.rows` says where each belongs."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row].ids))
    begin = 0
    while begin < len(order):
        rows = order[begin : begin + max(1, batch_tokens // len(texts[order[begin]].ids))]
        yield _assemble([texts[row] for row in rows], rows, special)
        begin += len(rows)


def _assemble(texts: Sequence[Framed], rows: Sequence[int], special: Special) -> TextBatch:
    wanted = _table([text.wanted for text in texts], IGNORED)
    return TextBatch(
        tokens=_table([text.ids for text in texts], special.pad or 0),
        lengths=torch.tensor([len(text.ids) for text in texts]),
        segments=_table([text.segments for text in texts], 0),
        wanted=wanted,
        targets=int((wanted != IGNORED).sum()),
        rows=tuple(rows),
    )


def _table(rows: Sequence[Sequence[int]], padding: int) -> Tensor:
    """Rows of numbers, padded to one width."""
    table = numpy.full((len(rows), max(map(len, rows), default=0)), padding, dtype=numpy.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return torch.from_numpy(table)
