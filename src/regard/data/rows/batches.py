"""Rows of texts become batches of tensors, by length, with padding at the end only.

B batch  L longest row  W longest row of targets
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Self

import numpy
import torch
from torch import Tensor

from regard.data.mixing import Mixing
from regard.data.planning import plan
from regard.data.rows.framing import IGNORED, Row
from regard.data.streams import WHOLE, Share, Stream, TensorBatch
from regard.special import Special

Draw = Callable[[Row, numpy.random.Generator], Row]


@dataclass(frozen=True)
class RowBatch(TensorBatch):
    """A batch of rows.

    tokens    (B, L)   ids, then PAD
    lengths   (B,)     tokens of each row
    segments  (B, L)   which text of the row a token belongs to
    wanted    (B, W)   the targets to predict, IGNORED elsewhere
    targets            the number of targets to predict
    rows               the numbers of the rows
    order     (B, L)   the rank of each token in the order of prediction; (B, 0) if rows have no order
    """

    tokens: Tensor
    lengths: Tensor
    segments: Tensor
    wanted: Tensor
    targets: int
    rows: tuple[int, ...]
    order: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.int64))

    @property
    def size(self) -> int:
        return len(self.tokens)

    def part(self, rows: slice) -> Self:
        return replace(super().part(rows), targets=int((self.wanted[rows] != IGNORED).sum()))


class RowStream(Stream[RowBatch]):
    """The batches of rows in memory.

    `batch_tokens` bounds rows × longest row; if a row is longer, the bound is raised to it. `draw` changes each row in
    each epoch, for example by masking other tokens. `mixing` says how often the rows of each corpus are learned;
    `parts` has the number of rows of each.
    """

    unit = "targets"  # labels, tags, spans, masked tokens

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        batch_tokens: int,
        seed: int,
        special: Special,
        share: Share = WHOLE,
        draw: Draw | None = None,
        mixing: Mixing | None = None,
        parts: Sequence[int] = (),
    ) -> None:
        self.mixing, self.parts = mixing, parts
        self.rows, self.batch_tokens, self.seed = rows, batch_tokens, seed
        self.special, self.share, self.draw = special, share, draw
        self.lengths = numpy.array([len(row.ids) for row in rows], dtype=numpy.int64)

    @property
    def checksum(self) -> str:
        rows = (f"Framed(ids={row.ids}, segments={row.segments}, wanted={row.wanted})" for row in self.rows)
        return sha256(f"[{', '.join(rows)}]".encode()).hexdigest()  # checkpoints hold digests of this form

    def describe(self) -> list[str]:
        return [f"{len(self.rows):,} examples"]

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[RowBatch]:
        generator = numpy.random.default_rng([self.seed, epoch])
        budget = max(self.batch_tokens, int(self.lengths.max(initial=1)))
        chosen = None if self.mixing is None else self.mixing.rows(self.parts, seed=self.seed, epoch=epoch)
        lengths = self.lengths if chosen is None else self.lengths[chosen]
        planned = plan(lengths, lengths, budget=budget, generator=generator)
        batches = [planned[number] for number in generator.permutation(len(planned))]
        batches = batches if chosen is None else [chosen[batch] for batch in batches]
        for place, batch, idle in self.share.groups(batches, position):
            numbers = batch.tolist()
            rows = [self._drawn(number, [self.seed, epoch, number]) for number in numbers]
            yield replace(_assemble(rows, numbers, self.special), epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[RowBatch]:
        """Every row once, the longest first; the changes of `draw` are the same each time and for every seed."""
        rows = [self._drawn(number, [0, number]) for number in range(len(self.rows))]
        return in_order_of_length(rows, batch_tokens=self.batch_tokens, special=self.special)

    def _drawn(self, number: int, seed: list[int]) -> Row:
        row = self.rows[number]
        return row if self.draw is None else self.draw(row, numpy.random.default_rng(seed))


def in_order_of_length(rows: Sequence[Row], *, batch_tokens: int, special: Special) -> Iterator[RowBatch]:
    """Every row once, the longest first; `RowBatch.rows` are their places in `rows`."""
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number].ids))
    begin = 0
    while begin < len(order):
        numbers = order[begin : begin + max(1, batch_tokens // len(rows[order[begin]].ids))]
        yield _assemble([rows[number] for number in numbers], numbers, special)
        begin += len(numbers)


def _assemble(rows: Sequence[Row], numbers: Sequence[int], special: Special) -> RowBatch:
    wanted = _table([row.wanted for row in rows], IGNORED)
    return RowBatch(
        tokens=_table([row.ids for row in rows], special.pad or 0),
        lengths=torch.tensor([len(row.ids) for row in rows]),
        segments=_table([row.segments for row in rows], 0),
        wanted=wanted,
        targets=int((wanted != IGNORED).sum()),
        rows=tuple(numbers),
        order=_table([row.order for row in rows], 0),
    )


def _table(rows: Sequence[Sequence[int]], padding: int) -> Tensor:
    """Rows of numbers, padded to one width."""
    table = numpy.full((len(rows), max(map(len, rows), default=0)), padding, dtype=numpy.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return torch.from_numpy(table)
