"""What the blocks of a stack keep of their own earlier positions while the stack is stepped.

    Attended    keys and values of every position. Reordering beams copies none of them: all beams of a sentence write
                into one buffer, and a mask says which entries belong to the past of which beam.
    Gated       one vector for each row and block, whatever the number of positions

N = A · beams rows  A sentences  L blocks  H heads  D head width  M width  E entries
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.cache import Cache
from regard.attention.heads import MultiHead
from regard.attention.positions import Rotary
from regard.attention.short import REGISTER
from regard.layers.ssru import SSRU
from regard.layers.step_maps import Map, attend, few, laid_out, laid_over, linear, linear_of, scaled

Look = Callable[[int, Tensor], Tensor]
"""The number of a block, and what it reads at this position (N, M) → what it finds (N, M), which may be overwritten"""


class Groups(NamedTuple):
    """The rows of a state in groups of `beams`; `kept` (A,) are the sentences, as numbered so far, that they answer."""

    kept: Tensor
    beams: int

    def of(self, x: Tensor, axis: int) -> Tensor:
        """The kept sentences of x, which has an entry for each along an axis; x itself if that changes nothing."""
        count = len(self.kept)
        if x.shape[axis] == count and torch.equal(self.kept, torch.arange(count, device=self.kept.device)):
            return x
        return x.index_select(axis, self.kept)


class Own(ABC):
    """It is used once: a step changes it in place, `reorder` returns a new one."""

    @abstractmethod
    def begin(self, length: int) -> Look:
        """The position after the first `length`."""

    @abstractmethod
    def reorder(self, rows: Tensor, groups: Groups | None) -> Own:
        """These rows, in this order; without groups, every sentence keeps its place and its number of beams."""


class SelfAttention:
    """The maps of one block's attention over its own positions: one product makes query, key and value."""

    def __init__(self, attention: MultiHead) -> None:
        weight, bias = scaled(attention)
        biases = None if bias is None else torch.cat([bias, attention.key.bias, attention.value.bias])
        self.projections = linear(torch.cat([weight, attention.key.weight, attention.value.weight]), biases)
        self.rotary = attention.position if isinstance(attention.position, Rotary) else None
        self.output = linear_of(attention.output)


@dataclass
class Attended(Own):
    """Keys and values of all blocks."""

    maps: list[SelfAttention]
    past: Tensor  # (2 L, A, H, E, D), an entry for every row of every step; E is padded to whole registers
    mine: Tensor  # (A, 1, beams, E) 0 where an entry is the row's own past, −∞ elsewhere
    entries: int = 0
    branched: bool = False  # whether a sentence may have entries that are not the past of all its rows

    @staticmethod
    def empty(attentions: Sequence[MultiHead], rows: int) -> Attended:
        like, heads = attentions[0].key.weight, attentions[0].heads
        return Attended(
            maps=[SelfAttention(attention) for attention in attentions],
            past=like.new_zeros(2 * len(attentions), rows, heads, REGISTER, like.shape[1] // heads),
            mine=like.new_full((rows, 1, 1, REGISTER), -torch.inf),
        )

    @staticmethod
    def after(attentions: Sequence[MultiHead], caches: Sequence[Cache], missing: Tensor | None) -> Attended:
        """The positions in these caches; row n does not have the first `missing[n]` of them."""
        past = torch.stack([part for cache in caches for part in cache.held])  # (2 L, N, H, t, D)
        rows, length = past.shape[1], past.shape[3]
        room = REGISTER - length % REGISTER
        mine = past.new_zeros(rows, 1, 1, length)
        if missing is not None:
            mine.masked_fill_(torch.arange(length, device=past.device) < missing.view(-1, 1, 1, 1), -torch.inf)
        return Attended(
            maps=[SelfAttention(attention) for attention in attentions],
            past=F.pad(past, (0, 0, 0, room)),
            mine=F.pad(mine, (0, room), value=-torch.inf),
            entries=length,
            branched=missing is not None,
        )

    def begin(self, length: int) -> Look:
        self._make_room()
        now, past, mine = self._views()
        self.entries += self.mine.shape[2]

        def look(number: int, x: Tensor) -> Tensor:
            maps = self.maps[number]
            query = self._write(maps, x, now[number], length)
            return maps.output(attend(query, past[2 * number], past[2 * number + 1], mine))

        return look

    def _make_room(self) -> None:
        """Make an entry for each row of this step and unmask it for that row; unfilled entries are zero and masked."""
        after = self.entries + self.mine.shape[2]
        if after > self.past.shape[3]:
            more = -(-max(after, 2 * self.past.shape[3]) // REGISTER) * REGISTER - self.past.shape[3]
            self.past = F.pad(self.past, (0, 0, 0, more))
            self.mine = F.pad(self.mine, (0, more), value=-torch.inf)
        self.mine[..., self.entries : after].diagonal(dim1=-2, dim2=-1).fill_(0)

    def _views(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor | None]:
        """Where each block writes, L of (2, A, H, beams, D); 2 L of keys and values to look at; the mask.

        Batched products take whole registers of entries; the mask leaves out the unfilled ones.
        """
        after, unpadded = self.entries + self.mine.shape[2], few(self.past[0])
        now = self.past[:, :, :, self.entries : after].unflatten(0, (-1, 2)).unbind(0)
        seen = after if unpadded else -(-after // REGISTER) * REGISTER
        past = laid_out(self.past[:, :, :, :seen])
        masked = self.branched or not unpadded
        return now, past, laid_over(self.mine[..., :seen], past[0]) if masked else None

    def _write(self, maps: SelfAttention, x: Tensor, now: Tensor, length: int) -> Tensor:
        """Write the keys and values of this position into `now`; return its queries (A, beams, H, D)."""
        _, _, heads, beams, width = now.shape
        projected = maps.projections(x).view(-1, beams, 3, heads, width)
        if maps.rotary is not None:
            projected[:, :, :2] = maps.rotary.on_step(projected[:, :, :2], length)
        now.copy_(projected[:, :, 1:].permute(2, 0, 3, 1, 4))
        return projected[:, :, 0]

    def reorder(self, rows: Tensor, groups: Groups | None) -> Attended:
        mine = self.mine.flatten(0, 2).index_select(0, rows)  # (N, E)
        before = self.mine.shape[2]
        if groups is None:
            return replace(self, mine=mine.view(self.mine.shape), branched=self.branched or before > 1)
        return replace(
            self,
            past=groups.of(self.past, 1),
            mine=mine.view(len(groups.kept), 1, groups.beams, mine.shape[-1]),
            branched=self.branched or max(groups.beams, before) > 1,
        )


@dataclass
class Gated(Own):
    """The state of every SSRU: c ← f ⊙ c + (1 − f) ⊙ W x, of which relu(c) is found."""

    maps: list[Map]  # (N, M) → (N, 2 M): what f is the sigmoid of, then W x
    states: Tensor  # (L, N, M)

    @staticmethod
    def empty(units: Sequence[SSRU], rows: int) -> Gated:
        like = units[0].forget.weight
        return Gated([_gates_and_candidates(unit) for unit in units], like.new_zeros(len(units), rows, like.shape[1]))

    def begin(self, length: int) -> Look:  # noqa: ARG002  all positions are alike
        states = self.states.unbind(0)

        def look(number: int, x: Tensor) -> Tensor:
            gates, candidates = self.maps[number](x).chunk(2, -1)
            return torch.lerp(candidates, states[number], gates.sigmoid(), out=states[number]).relu()

        return look

    def reorder(self, rows: Tensor, groups: Groups | None) -> Gated:  # noqa: ARG002  no row shares its state
        return replace(self, states=self.states.index_select(1, rows))


def _gates_and_candidates(unit: SSRU) -> Map:
    weight, bias = unit.forget.weight, unit.forget.bias
    return linear(torch.cat([weight, unit.candidate.weight]), torch.cat([bias, torch.zeros_like(bias)]))
