"""A text cut into blocks of equal length, without padding, and blocks into batches.

The model reads BOS u_0 … u_{n−2} and predicts u_0 … u_{n−1}. An epoch cuts this sequence every T tokens, starting at an
offset that differs between epochs: each token is predicted once in an epoch, and after other tokens in the next. The
blocks at both ends are filled up with tokens of their neighbours, which are read there and not counted.

B blocks  T tokens of a block  C carried tokens
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.mixing import Mixing, Order, numbers
from regard.data.streams import WHOLE, Share, Stream, TensorBatch
from regard.data.text.shard import Ids
from regard.data.text.tokens import Tokens
from regard.errors import RegardError
from regard.special import OWN, Special

Numbers = NDArray[numpy.integer[Any]]


@dataclass(frozen=True)
class BlockBatch(TensorBatch):
    """A batch of blocks.

    carried     (B, C)   the tokens before each block
    tokens      (B, T)   the tokens to read
    wanted      (B, T)   the tokens to predict
    counted     (B, T)   which of the predictions count
    targets              how many count
    fresh       (B,)     the rows with nothing to remember, where rows continue those of the batch before; else None
    """

    carried: Tensor
    tokens: Tensor
    wanted: Tensor
    counted: Tensor
    targets: int
    fresh: Tensor | None = None

    @property
    def size(self) -> int:
        """A model that continues the rows of the batch before has a memory for all rows together."""
        return len(self.tokens) if self.fresh is None else 1

    def part(self, rows: slice) -> Self:
        return replace(super().part(rows), targets=int(self.counted[rows].sum()))


class Plan(NamedTuple):
    """Where blocks start; of each block, the positions from `first` up to `end` count. (N,) each."""

    start: Numbers
    first: Numbers
    end: Numbers

    def pick(self, blocks: Numbers | slice) -> "Plan":
        return Plan(*(part[blocks] for part in self))


class BlockStream(Stream[BlockBatch]):
    """The batches of a text: `rows` blocks of `block` tokens, each with the `carry` tokens before it."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        block: int,
        rows: int,
        seed: int,
        share: Share = WHOLE,
        carry: int = 0,
        special: Special = OWN,
        name: str = "train",
        mixing: Mixing | None = None,
    ) -> None:
        if len(tokens) < block:
            raise RegardError(
                f"the {name} text has {len(tokens):,} tokens, not one block of {block:,}; "
                f"give more text, or set data.block to {max(len(tokens) // 2, 1)} or less"
            )
        self.tokens, self.block, self.rows, self.seed = tokens, block, rows, seed
        self.share, self.carry, self.special, self.mixing = share, carry, special, mixing

    @property
    def checksum(self) -> str:
        return self.tokens.checksum

    def describe(self) -> list[str]:
        return [str(self.tokens)]

    def _blocks(self, plan: Plan, epoch: int) -> Order:
        """The blocks of an epoch: every block once, or as the mixing of corpora says."""
        if self.mixing is None:
            return numbers(len(plan.start))
        owners = numpy.searchsorted(numpy.cumsum(self.tokens.parts), plan.first, side="right")
        sizes = numpy.bincount(owners, minlength=len(self.tokens.parts)).tolist()
        return self.mixing.rows(sizes, seed=self.seed, epoch=epoch)

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[BlockBatch]:
        generator = numpy.random.default_rng([self.seed, epoch])
        plan = cut(len(self.tokens), block=self.block, phase=int(generator.integers(self.block)))
        order = self._blocks(plan, epoch).astype(numpy.int64)
        generator.shuffle(order)
        batches = numpy.array_split(order, -(-len(order) // self.rows))
        for place, blocks, idle in self.share.groups(batches, position):
            yield replace(self._batch(plan.pick(blocks)), epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[BlockBatch]:
        """Every token once, from the start of the text."""
        return map(self._batch, _chunks(cut(len(self.tokens), block=self.block, phase=0), self.rows))

    def _batch(self, plan: Plan) -> BlockBatch:
        return _assemble(self.tokens.ids, plan, block=self.block, carry=self.carry, special=self.special)


def sliding(ids: Ids, *, block: int, rows: int, special: Special = OWN) -> Iterator[BlockBatch]:
    """Every token once in order, in batches of `rows` blocks that overlap by half.

    Each token is predicted after at least half a block of others, except those of the first half block.
    """
    plans = _chunks(slide(len(ids), block=block), rows)
    return (_assemble(ids, plan, block=block, carry=0, special=special) for plan in plans)


def read_at(ids: Ids, places: Numbers, *, special: Special) -> NDArray[numpy.int64]:
    """The token that the model reads to predict the one at each of these places: the one before it, or BOS at 0.

    Places before the start wrap around to the end of the text.
    """
    return numpy.where(places == 0, special.bos, ids[(places - 1) % len(ids)].astype(numpy.int64))


def cut(tokens: int, *, block: int, phase: int) -> Plan:
    """Blocks at phase, phase + T, …; at both ends a block that overlaps its neighbour and counts only the rest."""
    borders = numpy.unique(numpy.concatenate([[0], numpy.arange(phase, tokens, block), [tokens]]))
    first, end = borders[:-1], borders[1:]
    return Plan(numpy.minimum(first, tokens - block), first, end)


def slide(tokens: int, *, block: int) -> Plan:
    """A block at the start in which all tokens count, then blocks half a block apart whose last half counts."""
    borders = numpy.unique(numpy.concatenate([[0], numpy.arange(block, tokens, -(-block // 2)), [tokens]]))
    first, end = borders[:-1], borders[1:]
    return Plan(end - block, first, end)


def _chunks(plan: Plan, rows: int) -> Iterator[Plan]:
    """The blocks of a plan in order, `rows` at a time."""
    return (plan.pick(slice(start, start + rows)) for start in range(0, len(plan.start), rows))


def _assemble(ids: Ids, plan: Plan, *, block: int, carry: int, special: Special) -> BlockBatch:
    """The batch of these blocks. Positions before the start wrap around to the end of the text."""
    places = plan.start[:, None] + numpy.arange(-carry, block)
    inside = places[:, carry:]
    counted = (inside >= plan.first[:, None]) & (inside < plan.end[:, None])
    carried, tokens = torch.from_numpy(read_at(ids, places, special=special)).split([carry, block], dim=1)
    return BlockBatch(
        carried=carried,
        tokens=tokens,
        wanted=torch.from_numpy(ids[inside].astype(numpy.int64)),
        counted=torch.from_numpy(counted),
        targets=int((plan.end - plan.first).sum()),
    )
