"""Rows of ids become batches of tensors. Of this room only this and text_batches know torch.

B batch  S longest source  T longest target, both with EOS
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Protocol, Self

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.corpus import Corpus, Ids
from regard.data.dropout import Dropout
from regard.data.planning import Rows, plan, share
from regard.data.prefetch import ahead
from regard.special import OWN, Special

WINDOW = 2**18  # rows that are planned at a time
DRAWN_WINDOW = 2**15  # with dropout: rows whose new segmentation is in memory at a time
AHEAD = 8  # batches prepared beforehand


@dataclass(frozen=True)
class Batch:
    """A batch of pairs.

    source          (B, S)       ids, EOS, then PAD
    source_lengths  (B,)         tokens of each row with EOS
    target          (B, T + 1)   BOS, ids, EOS, then PAD: [:, :-1] is what the decoder reads, [:, 1:] what it predicts
    target_lengths  (B,)         predicted tokens of each row: its ids and EOS
    targets                      predicted tokens in all
    rows                         which rows of the corpus these are
    epoch, position              where training is; to go on after this batch, ask for `position + 1`
    """

    source: Tensor
    source_lengths: Tensor
    target: Tensor
    target_lengths: Tensor
    targets: int
    rows: tuple[int, ...]
    epoch: int = 0
    position: int = 0

    def to(self, device: torch.device | str) -> Self:
        tensors = {name: getattr(self, name) for name in ("source", "source_lengths", "target", "target_lengths")}
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


@dataclass(frozen=True)
class SourceBatch:
    """Sources to be answered: `rows` says which of the texts that were given they are."""

    source: Tensor
    source_lengths: Tensor
    rows: tuple[int, ...]


class Side(Protocol):
    """The ids of one side by row, without BOS and EOS, and all their lengths."""

    @property
    def lengths(self) -> NDArray[numpy.integer]: ...
    def __getitem__(self, row: int, /) -> Ids | list[int]: ...


class InMemory:
    """A side that is a list."""

    def __init__(self, ids: Sequence[list[int]]) -> None:
        self.lengths = numpy.array([len(row) for row in ids], dtype=numpy.int64)
        self._ids = ids

    def __getitem__(self, row: int) -> list[int]:
        return self._ids[row]


class Part:
    """Some rows of a side, counted from 0."""

    def __init__(self, side: Side, rows: Rows) -> None:
        self.lengths = side.lengths[rows]
        self._side, self._rows = side, rows

    def __getitem__(self, row: int) -> Ids | list[int]:
        return self._side[int(self._rows[row])]


@dataclass(frozen=True)
class Window:
    """Rows that are planned together, and what they are called in the corpus."""

    source: Side
    target: Side
    rows: Rows


class Batches:
    """The batches of a corpus, the same for the same seed, epoch and position.

    `batch_tokens` bounds rows × longest target and rows × longest source, EOS and padding counted. Each epoch has every
    row once, over all `world` processes together, and as many batches for each process.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        batch_tokens: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        dropout: Dropout | None = None,
        special: Special = OWN,
    ) -> None:
        if not 0 <= rank < world:
            raise ValueError(f"rank={rank} is not one of the {world} processes; give 0 to {world - 1}")
        self.corpus = corpus
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.rank, self.world = rank, world
        self.dropout = dropout
        self.special = special

    def stream(self, *, epoch: int = 0, position: int = 0) -> Iterator[Batch]:
        """Batches without end from a place in training on, prepared by a thread while others are used."""
        epochs = (self.epoch(number, position=position if number == epoch else 0) for number in count(epoch))
        return ahead((batch for batches in epochs for batch in batches), depth=AHEAD)

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[Batch]:
        """The batches of one epoch for this process, from the one at `position` on."""
        for place, (window, rows) in islice(enumerate(self._planned(epoch)), position, None):
            batch = _assemble(window.source, window.target, rows, self.special)
            yield replace(batch, rows=tuple(window.rows[rows].tolist()), epoch=epoch, position=place)

    def padding(self, epoch: int = 0) -> float:
        """The share of cells, over both sides and all batches of this process, that are PAD."""
        used = cells = 0
        for window, rows in self._planned(epoch):
            for side in (window.source, window.target):
                lengths = side.lengths[rows] + 1
                used += int(lengths.sum())
                cells += len(rows) * int(lengths.max())
        return 1 - used / cells

    def _planned(self, epoch: int) -> Iterator[tuple[Window, Rows]]:
        generator = numpy.random.default_rng([self.seed, epoch])
        order = generator.permutation(len(self.corpus))
        size = DRAWN_WINDOW if self.dropout else WINDOW
        for rows in numpy.array_split(order, -(-len(order) // size)):
            window = self._window(rows, epoch)
            batches = plan(
                window.source.lengths + 1, window.target.lengths + 1, budget=self.batch_tokens, generator=generator
            )
            for batch in share(batches, world=self.world, generator=generator)[self.rank :: self.world]:
                yield window, batch

    def _window(self, rows: Rows, epoch: int) -> Window:
        source, target = self.corpus.source, self.corpus.target
        if self.dropout is None:
            return Window(Part(source, rows), Part(target, rows), rows)
        drawn = [
            self.dropout.redraw(source[row].tolist(), target[row].tolist(), epoch=epoch, row=row)
            for row in rows.tolist()
        ]
        return Window(InMemory([pair[0] for pair in drawn]), InMemory([pair[1] for pair in drawn]), rows)


def evaluation_batches(corpus: Corpus, *, batch_tokens: int, special: Special = OWN) -> Iterator[Batch]:
    """Every row once, the longest first; `Batch.rows` says where each belongs."""
    for rows in _longest_first(corpus.source.lengths, corpus.target.lengths, batch_tokens):
        yield _assemble(corpus.source, corpus.target, rows, special)


def source_batches(ids: Sequence[list[int]], *, batch_tokens: int, special: Special = OWN) -> Iterator[SourceBatch]:
    """Sources alone, as they are in a Batch, the longest first; for texts that are to be answered."""
    side = InMemory(ids)
    for rows in _longest_first(side.lengths, side.lengths, batch_tokens):
        source, lengths = _table([side[row] for row in rows.tolist()], special)
        yield SourceBatch(source, lengths, tuple(rows.tolist()))


def _longest_first(source: NDArray[numpy.integer], target: NDArray[numpy.integer], batch_tokens: int) -> list[Rows]:
    """Batches by length; the longest row is a batch at least, whatever the budget."""
    longest = numpy.maximum(source, target) + 1
    budget = max(batch_tokens, int(longest.max(initial=0)))
    batches = plan(source + 1, target + 1, budget=budget, generator=numpy.random.default_rng(0))
    return sorted((numpy.sort(batch) for batch in batches), key=lambda rows: (-int(longest[rows].max()), int(rows[0])))


def _assemble(source: Side, target: Side, rows: Rows, special: Special) -> Batch:
    numbers = rows.tolist()
    sources, source_lengths = _table([source[row] for row in numbers], special)
    targets, target_lengths = _table([target[row] for row in numbers], special, begin=True)
    return Batch(sources, source_lengths, targets, target_lengths, int(target_lengths.sum()), tuple(numbers))


def _table(ids: Sequence[Ids | list[int]], special: Special, *, begin: bool = False) -> tuple[Tensor, Tensor]:
    """Rows of ids, each ended by EOS (and begun by BOS), padded to one width; and their lengths, BOS not counted."""
    first = int(begin)
    lengths = numpy.array([len(row) + 1 for row in ids], dtype=numpy.int64)
    table = numpy.full((len(ids), first + int(lengths.max())), special.pad or 0, dtype=numpy.int64)
    table[:, :first] = special.bos
    for number, (row, length) in enumerate(zip(ids, lengths.tolist(), strict=True)):
        table[number, first : first + length - 1] = row
        table[number, first + length - 1] = special.eos
    return torch.from_numpy(table), torch.from_numpy(lengths)
