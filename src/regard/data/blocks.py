"""A text cut into blocks, packed without padding, and blocks into batches.

The model reads BOS u_0 … u_{n−2} and predicts u_0 … u_{n−1}. An epoch cuts this at places T apart, beginning at a place
of its own, so that each token is predicted once in an epoch and after other words in the next. What is left at either
end is filled up with its neighbours, which are read there and not counted.

B blocks  T tokens of a block  C tokens carried
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple, Self

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.corpus import Ids
from regard.data.prefetch import ahead
from regard.errors import RegardError
from regard.special import OWN, Special

AHEAD = 8  # batches prepared beforehand

Numbers = NDArray[numpy.integer[Any]]


@dataclass(frozen=True)
class BlockBatch:
    """Blocks to learn from.

    carried     (B, C)   what stands before each block
    tokens      (B, T)   what is read
    wanted      (B, T)   what is to be predicted
    counted     (B, T)   which of it counts
    targets              how many these are
    epoch, position      where training is; to go on after this batch, ask for `position + 1`
    """

    carried: Tensor
    tokens: Tensor
    wanted: Tensor
    counted: Tensor
    targets: int
    epoch: int = 0
    position: int = 0

    def to(self, device: torch.device | str) -> Self:
        tensors = {name: getattr(self, name) for name in ("carried", "tokens", "wanted", "counted")}
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


class Plan(NamedTuple):
    """Where blocks begin, and from where to where their tokens count. (N,) each."""

    start: Numbers
    first: Numbers
    end: Numbers

    def pick(self, rows: Numbers) -> "Plan":
        return Plan(*(part[rows] for part in self))


class Blocks:
    """The batches of a text, the same for the same seed, epoch and position; of nearly equal size in an epoch."""

    def __init__(
        self, ids: Ids, *, block: int, rows: int, seed: int, carry: int = 0, special: Special = OWN, name: str = "train"
    ) -> None:
        if len(ids) < block:
            raise RegardError(
                f"the {name} text has {len(ids):,} tokens, not one block of {block:,}; "
                f"give more text, or set data.block to {max(len(ids) // 2, 1)} or less"
            )
        self.ids, self.block, self.rows, self.seed = ids, block, rows, seed
        self.carry, self.special = carry, special

    def stream(self, *, epoch: int = 0, position: int = 0) -> Iterator[BlockBatch]:
        """Batches without end from a place in training on, prepared by a thread while others are used."""
        epochs = (self.epoch(number, position=position if number == epoch else 0) for number in count(epoch))
        return ahead((batch for batches in epochs for batch in batches), depth=AHEAD)

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[BlockBatch]:
        """The batches of one epoch, from the one at `position` on."""
        generator = numpy.random.default_rng([self.seed, epoch])
        plan = cut(len(self.ids), block=self.block, phase=int(generator.integers(self.block)))
        order = generator.permutation(len(plan.start))
        groups = numpy.array_split(order, -(-len(order) // self.rows))
        for place in range(position, len(groups)):
            yield replace(self.batch(plan.pick(groups[place])), epoch=epoch, position=place)

    def in_order(self) -> Iterator[BlockBatch]:
        """Every token once, from the beginning, for validation."""
        return self._by(cut(len(self.ids), block=self.block, phase=0))

    def sliding(self) -> Iterator[BlockBatch]:
        """Every token once, after at least half a block of others, but for those at the very beginning."""
        return self._by(slide(len(self.ids), block=self.block))

    def _by(self, plan: Plan) -> Iterator[BlockBatch]:
        for start in range(0, len(plan.start), self.rows):
            yield self.batch(plan.pick(numpy.arange(start, min(start + self.rows, len(plan.start)))))

    def batch(self, plan: Plan) -> BlockBatch:
        """These blocks; what comes before the beginning of the text is its end."""
        places = plan.start[:, None] + numpy.arange(-self.carry, self.block)
        wanted = self.ids[places[:, self.carry :]].astype(numpy.int64)
        read = read_at(self.ids, places, special=self.special)
        counted = (places[:, self.carry :] >= plan.first[:, None]) & (places[:, self.carry :] < plan.end[:, None])
        carried, tokens = torch.from_numpy(read).split([self.carry, self.block], dim=1)
        return BlockBatch(
            carried, tokens, torch.from_numpy(wanted), torch.from_numpy(counted), int((plan.end - plan.first).sum())
        )


def read_at(ids: Ids, places: Numbers, *, special: Special) -> NDArray[numpy.int64]:
    """What is read where the token at each of these places is to be predicted: the one before it, at first BOS."""
    return numpy.where(places == 0, special.bos, ids[(places - 1) % len(ids)].astype(numpy.int64))


def cut(tokens: int, *, block: int, phase: int) -> Plan:
    """Blocks at phase, phase + T, …, and at both ends one that overlaps its neighbour and counts what is left."""
    borders = numpy.unique(numpy.concatenate([[0], numpy.arange(phase, tokens, block), [tokens]]))
    first, end = borders[:-1], borders[1:]
    return Plan(numpy.minimum(first, tokens - block), first, end)


def slide(tokens: int, *, block: int) -> Plan:
    """A block at the beginning that counts whole, then blocks half a block apart that count their last half."""
    borders = numpy.unique(numpy.concatenate([[0], numpy.arange(block, tokens, -(-block // 2)), [tokens]]))
    first, end = borders[:-1], borders[1:]
    return Plan(end - block, first, end)
