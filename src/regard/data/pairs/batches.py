"""Pairs of token ids become batches of tensors.

B batch  S longest source  T longest target, both with EOS
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, Self

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.bpe_dropout import PairDropout
from regard.data.mapped import Numbers
from regard.data.mixing import Mixing, Order, numbers
from regard.data.order import Shuffled
from regard.data.pairs.corpus import Corpus, Ids
from regard.data.planning import Rows, plan
from regard.data.streams import WHOLE, Part, Share, Stream, TensorBatch
from regard.special import OWN, Special

WINDOW = 2**18  # rows that are planned at a time
MANY = 2**22  # rows whose order is not kept in memory
DRAWN_WINDOW = 2**15  # with dropout: rows whose new segmentation is in memory at a time


@dataclass(frozen=True)
class PairBatch(TensorBatch):
    """A batch of pairs.

    source          (B, S)       ids, EOS, then PAD
    source_lengths  (B,)         tokens of each row with EOS
    target          (B, T + 1)   BOS, ids, EOS, then PAD: the decoder reads [:, :-1] and predicts [:, 1:]
    target_lengths  (B,)         predicted tokens of each row: its ids and EOS
    targets                      predicted tokens in all
    rows                         the row numbers in the corpus
    """

    source: Tensor
    source_lengths: Tensor
    target: Tensor
    target_lengths: Tensor
    targets: int
    rows: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.target)

    def part(self, rows: slice) -> Self:
        return replace(super().part(rows), targets=int(self.target_lengths[rows].sum()))


@dataclass(frozen=True)
class SourceBatch:
    """Sources to be answered; `rows` are their numbers among the given texts."""

    source: Tensor
    source_lengths: Tensor
    rows: tuple[int, ...]


class TokenRows(Protocol):
    """One side of the pairs: the ids of each row, without BOS and EOS, and the lengths of all rows."""

    @property
    def lengths(self) -> NDArray[numpy.integer]: ...
    def __getitem__(self, row: int, /) -> Ids | list[int]: ...


class InMemory:
    """Rows from a list."""

    def __init__(self, ids: Sequence[list[int]]) -> None:
        self.lengths = numpy.array([len(row) for row in ids], dtype=numpy.int64)
        self._ids = ids

    def __getitem__(self, row: int) -> list[int]:
        return self._ids[row]


class Subset:
    """Some rows of one side, numbered from 0."""

    def __init__(self, side: TokenRows, rows: Order) -> None:
        self.lengths = side.lengths[rows].astype(numpy.int64)
        self._side, self._rows = side, rows

    def __getitem__(self, row: int) -> Ids | list[int]:
        return self._side[int(self._rows[row])]


@dataclass(frozen=True)
class Planned:
    """Rows whose batches are planned together; `rows` are their row numbers in the corpus."""

    source: TokenRows
    target: TokenRows
    rows: Order


class PairStream(Stream[PairBatch]):
    """The batches of a corpus.

    `batch_tokens` bounds rows × longest target and rows × longest source, EOS and padding counted.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        batch_tokens: int,
        seed: int,
        share: Share = WHOLE,
        dropout: PairDropout | None = None,
        special: Special = OWN,
        mixing: Mixing | None = None,
    ) -> None:
        self.corpus = corpus
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.share = share
        self.dropout = dropout
        self.special = special
        self.mixing = mixing

    @property
    def checksum(self) -> str:
        return self.corpus.checksum

    def describe(self) -> list[str]:
        source, target = self.corpus.source.statistics(), self.corpus.target.statistics()
        return [str(self.corpus.report), f"  source: {source}", f"  target: {target}"]

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[PairBatch]:
        for planned, (place, rows, idle) in self._planned(epoch, position):
            batch = _assemble(planned.source, planned.target, rows, self.special)
            self.corpus.release()
            yield replace(batch, rows=tuple(planned.rows[rows].tolist()), epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[PairBatch]:
        """Every row once, the longest first, without dropout; `PairBatch.rows` are the row numbers in the corpus."""
        source, target = self.corpus.source, self.corpus.target
        for rows in _longest_first(source.lengths, target.lengths, self.batch_tokens):
            yield _assemble(source, target, rows, self.special)

    def _planned(self, epoch: int, position: int) -> Iterator[tuple[Planned, Part]]:
        """The batches of this process from `position` on, as row numbers in what was planned together."""
        generator = numpy.random.default_rng([self.seed, epoch])
        size, before = DRAWN_WINDOW if self.dropout else WINDOW, 0
        for rows in self._windows(epoch, size, generator):
            planned = self._window(rows, epoch)
            lengths = planned.source.lengths + 1, planned.target.lengths + 1
            batches = sorted(plan(*lengths, budget=self.batch_tokens, generator=generator), key=len)
            order_of_batches = [batches[number] for number in generator.permutation(len(batches))]
            if position < before + len(batches):
                both = numpy.stack(lengths)
                for part in self.share.groups(order_of_batches, max(position - before, 0), lengths=both):
                    yield planned, part._replace(position=before + part.position)
            before += len(batches)

    def _windows(self, epoch: int, size: int, generator: numpy.random.Generator) -> Iterator[Order]:
        """The rows of an epoch, shuffled, about `size` at a time: every row once, or as the mixing of corpora says."""
        rows = len(self.corpus)
        if self.mixing is None and rows > MANY:
            order, count = Shuffled(rows, [self.seed, epoch]), -(-rows // size)
            borders = [rows * number // count for number in range(count + 1)]
            yield from (order.take(*both) for both in pairwise(borders))
            return
        if self.mixing is None:
            chosen = numbers(rows)
        else:
            chosen = self.mixing.rows(self.corpus.parts, seed=self.seed, epoch=epoch)
        generator.shuffle(chosen)
        yield from numpy.array_split(Numbers(chosen).values, -(-len(chosen) // size))

    def _window(self, rows: Order, epoch: int) -> Planned:
        source, target = self.corpus.source, self.corpus.target
        if self.dropout is None:
            sources = Subset(source, rows)
            self.corpus.release()  # all lengths of this side were read
            targets = Subset(target, rows)
            self.corpus.release()
            return Planned(sources, targets, rows)
        drawn = [
            self.dropout.redraw(source[row].tolist(), target[row].tolist(), epoch=epoch, row=row)
            for row in rows.tolist()
        ]
        return Planned(InMemory([pair[0] for pair in drawn]), InMemory([pair[1] for pair in drawn]), rows)


def source_batches(ids: Sequence[list[int]], *, batch_tokens: int, special: Special = OWN) -> Iterator[SourceBatch]:
    """Sources alone, in the form they have in a PairBatch, the longest first; for texts to be answered."""
    side = InMemory(ids)
    for rows in _longest_first(side.lengths, side.lengths, batch_tokens):
        source, lengths = _table([side[row] for row in rows.tolist()], special)
        yield SourceBatch(source, lengths, tuple(rows.tolist()))


def _longest_first(source: NDArray[numpy.integer], target: NDArray[numpy.integer], batch_tokens: int) -> list[Rows]:
    """Batches by length, the longest first. If the longest row exceeds the budget, the budget is raised to it."""
    source, target = source.astype(numpy.int64) + 1, target.astype(numpy.int64) + 1  # with EOS
    longest = numpy.maximum(source, target)
    budget = max(batch_tokens, int(longest.max(initial=0)))
    batches = plan(source, target, budget=budget, generator=numpy.random.default_rng(0))
    return sorted((numpy.sort(batch) for batch in batches), key=lambda rows: (-int(longest[rows].max()), int(rows[0])))


def _assemble(source: TokenRows, target: TokenRows, rows: Rows, special: Special) -> PairBatch:
    numbers = rows.tolist()
    sources, source_lengths = _table([source[row] for row in numbers], special)
    targets, target_lengths = _table([target[row] for row in numbers], special, begin=True)
    return PairBatch(sources, source_lengths, targets, target_lengths, int(target_lengths.sum()), tuple(numbers))


def _table(ids: Sequence[Ids | list[int]], special: Special, *, begin: bool = False) -> tuple[Tensor, Tensor]:
    """Rows of ids with EOS at the end (and BOS at the start), padded to one width; and their lengths without BOS."""
    first = int(begin)
    lengths = numpy.array([len(row) + 1 for row in ids], dtype=numpy.int64)
    table = numpy.full((len(ids), first + int(lengths.max())), special.pad or 0, dtype=numpy.int64)
    table[:, :first] = special.bos
    for number, (row, length) in enumerate(zip(ids, lengths.tolist(), strict=True)):
        table[number, first : first + length - 1] = row
        table[number, first + length - 1] = special.eos
    return torch.from_numpy(table), torch.from_numpy(lengths)
