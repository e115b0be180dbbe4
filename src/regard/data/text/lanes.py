"""A text cut into lanes that are read side by side: each row of a batch continues the same row of the batch before.

    lane 0      u_0 … u_{T−1}        u_T … u_{2T−1}            …
    lane 1      u_n … u_{n+T−1}      u_{n+T} … u_{n+2T−1}      …
                batch 0              batch 1

A model reads the token before each of these and predicts it. An epoch reads every lane once from its beginning, where
a model has nothing to remember. Its first batch is shorter than the others, by a number that differs between epochs, so
that the cuts are at other places.

The number of lanes follows from the number of processes, but it never changes within an epoch: if other processes
resume a run, they divide its lanes among them until the epoch ends.

B lanes  T tokens of a block
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy
import torch

from regard.data.streams import WHOLE, Share, Stream
from regard.data.text.blocks import BlockBatch, read_at
from regard.data.text.tokens import Tokens
from regard.errors import RegardError
from regard.special import OWN, Special


class LaneStream(Stream[BlockBatch]):
    """The batches of a text: `rows` lanes for each process, `block` tokens of each at a time.

    If the text is too short for a block in every lane, there are fewer lanes.
    """

    chained = True

    def __init__(
        self,
        tokens: Tokens,
        *,
        block: int,
        rows: int,
        seed: int,
        share: Share = WHOLE,
        special: Special = OWN,
        name: str = "train",
    ) -> None:
        if len(tokens) < block * share.world:
            wanted = f"one block of {block:,}" + (f" for each of {share.world} processes" if share.world > 1 else "")
            raise RegardError(
                f"the {name} text has {len(tokens):,} tokens, not {wanted}; "
                f"give more text, or set data.block to {max(len(tokens) // (2 * share.world), 1)} or less"
            )
        self.tokens, self.block, self.seed, self.share, self.special = tokens, block, seed, share, special
        self.rows = min(rows, len(tokens) // (block * share.world))
        self._kept: tuple[int, int] | None = None  # an epoch that others have begun, and how many lanes it has

    @property
    def checksum(self) -> str:
        return self.tokens.checksum

    def describe(self) -> list[str]:
        lanes = self.rows * self.share.world
        return [f"{self.tokens}, in {lanes} lanes of {-(-len(self.tokens) // lanes):,}"]

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[BlockBatch]:
        phase = int(numpy.random.default_rng([self.seed, epoch]).integers(self.block))
        mine = self.lanes(epoch)
        if mine.stop > mine.start:
            for batch in self._batches(self._number(epoch), mine, phase=phase, position=position):
                yield replace(batch, epoch=epoch)
        else:  # more processes than lanes: this one reads the first lane for company, and nothing is learned from that
            for batch in self._batches(self._number(epoch), slice(1), phase=phase, position=position):
                yield replace(batch, epoch=epoch, fresh=torch.ones(1, dtype=torch.bool), idle=True)

    def lanes(self, epoch: int) -> slice:
        number, rank, world = self._number(epoch), self.share.rank, self.share.world
        return slice(-(-number * rank // world), -(-number * (rank + 1) // world))

    def keep_lanes(self, epoch: int, count: int) -> None:
        self._kept = epoch, count

    def _number(self, epoch: int) -> int:
        """How many lanes all processes read in an epoch."""
        return self._kept[1] if self._kept and self._kept[0] == epoch else self.rows * self.share.world

    def in_order(self) -> Iterator[BlockBatch]:
        """Every token once, whatever the share of this process, in as many lanes as one process learns from."""
        return self._batches(self.rows, slice(None), phase=0)

    def _batches(self, lanes: int, mine: slice, *, phase: int, position: int = 0) -> Iterator[BlockBatch]:
        """The batches of some of the lanes; those of all lanes end together, with the longest lane."""
        borders = numpy.arange(lanes + 1) * len(self.tokens) // lanes  # the lengths of lanes differ by one at most
        begin, end, longest = borders[:-1][mine], borders[1:][mine], int(numpy.diff(borders).max())
        cuts = numpy.unique([0, *range(phase, longest, self.block), longest])
        for place in range(position, len(cuts) - 1):
            places = begin[:, None] + numpy.arange(cuts[place], cuts[place + 1])
            counted = places < end[:, None]
            inside = numpy.minimum(places, len(self.tokens) - 1)
            yield BlockBatch(
                carried=torch.empty(len(begin), 0, dtype=torch.int64),
                tokens=torch.from_numpy(read_at(self.tokens.ids, inside, special=self.special)),
                wanted=torch.from_numpy(self.tokens.ids[inside].astype(numpy.int64)),
                counted=torch.from_numpy(counted),
                targets=int(counted.sum()),
                fresh=torch.full((len(begin),), place == 0),
                position=place,
            )
