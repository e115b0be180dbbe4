"""A stack of blocks, one position at a time, in as few calls as possible.

The results are those of `Stack` with caches. A step of a small model is a hundred small products, and calling each of
them through modules, checks and views takes longer than computing it. What the blocks keep of their own positions is
in `step_own.py`, and the parts of a block as plain functions in `step_maps.py`.

    memory    (2 L, A, H, S, D)     once for each sentence, however many beams look at it

N = A · beams rows  A sentences  L blocks  H heads  D head width  M width  S memory length
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeGuard, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import Cache
from regard.attention.heads import MultiHead
from regard.attention.patterns import All, Causal
from regard.attention.positions import Position, Rotary
from regard.attention.recorder import recorded
from regard.attention.scores import Dot, ScaledDot
from regard.attention.short import REGISTER
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.blocks import Block, Layers, Stack
from regard.layers.feed_forward import FeedForward
from regard.layers.packed import Halves, Packed
from regard.layers.ssru import SSRU
from regard.layers.step_maps import Around, Map, attend, feed_forward, laid_out, laid_over, linear, linear_of, scaled
from regard.layers.step_own import Attended, Gated, Groups, Own


@dataclass
class Steps:
    """The state of a stack while decoding. It is used once: `step` changes it in place, `reorder` returns a new one."""

    layers: list[_Layer]
    final: Map
    own: Own
    memory: Tensor | None  # S is padded to whole registers
    beyond: Tensor | None  # (A, 1, 1, S) −∞ after the end of the memory
    origin: Tensor  # (N,) the sentence that each row looks at
    beams: int = 1  # rows of each sentence; they are adjacent
    length: int = 0  # positions so far
    missing: Tensor | None = None  # (N,) how many first positions are unused, in rows with a shorter prompt
    packed: Packed | None = None  # the weights of the output layer, if there are several rows
    halves: Halves | None = None  # the same for one row

    def step(self, x: Tensor) -> Tensor:
        """The next position of every row: x (N, M) → (N, M)"""
        if recorded():
            raise RegardError("this state keeps no weights; begin recording before model.start(memory)")
        look = self.own.begin(self.length)
        memory, beyond = self._memory
        for number, layer in enumerate(self.layers):
            x = layer.around_attention.leave(x, look(number, layer.around_attention.enter(x)))
            if layer.cross is not None and layer.around_cross is not None:
                query = layer.cross.query(layer.around_cross.enter(x)).view(-1, self.beams, *self._heads)
                found = attend(query, memory[2 * number], memory[2 * number + 1], beyond)
                x = layer.around_cross.leave(x, layer.cross.output(found))
            x = layer.around_feed_forward.leave(x, layer.feed_forward(layer.around_feed_forward.enter(x)))
        self.length += 1
        return self.final(x)

    @cached_property
    def _memory(self) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """Keys and values of the memory by layer, and its mask, as `attend` takes them."""
        if self.memory is None:
            return (), None
        laid = laid_out(self.memory)
        return laid, laid_over(self.beyond, laid[0])

    @cached_property
    def _heads(self) -> tuple[int, int]:
        """The number of heads of the memory, and their width."""
        assert self.memory is not None
        return self.memory.shape[2], self.memory.shape[4]

    def output(self, x: Tensor, linear: nn.Linear) -> Tensor:
        """linear(x) (N, V)"""
        if len(x) == 1:
            if self.halves is None:
                self.halves = Halves(linear.weight, linear.bias)
            return self.halves(x)
        if self.packed is None:
            self.packed = Packed(linear.weight, linear.bias)
        return self.packed(x)

    def reorder(self, rows: Tensor) -> Steps:
        """The state of these rows, in this order. While every sentence keeps its beams, the memory stays as it is."""
        origin = self.origin.index_select(0, rows)
        missing = None if self.missing is None else self.missing.index_select(0, rows)
        if torch.equal(origin, self.origin):
            return replace(self, own=self.own.reorder(rows, None), missing=missing)
        kept, origin, counts = torch.unique_consecutive(origin, return_inverse=True, return_counts=True)
        beams = int(counts[0]) if len(counts) else 1
        if not bool((counts == beams).all()):
            kept, origin, beams = kept[origin], torch.arange(len(rows), device=rows.device), 1
        groups = Groups(kept, beams)
        return replace(
            self,
            own=self.own.reorder(rows, groups),
            memory=None if self.memory is None else groups.of(self.memory, 1),
            beyond=None if self.beyond is None else groups.of(self.beyond, 0),
            origin=origin,
            beams=beams,
            missing=missing,
        )


def can_step(layers: Layers) -> TypeGuard[Stack]:
    """Whether `Steps` can compute every part of the layers, and neither gradients nor recorded weights are wanted."""
    if torch.is_grad_enabled() or recorded() or type(layers) is not Stack:
        return False
    blocks = _blocks(layers)
    return all(_is_plain(block) for block in blocks) and len({type(block.attention) for block in blocks}) == 1


def steps_of(stack: Layers, *, rows: int, memory: Tensor | None = None, lengths: Tensor | None = None) -> Steps | None:
    """The state before the first position; None if the stack cannot be stepped.

    memory (A, S, M) with A = rows, of which lengths (A,) are not padding.
    """
    if not can_step(stack):
        return None
    if lengths is not None and not bool(lengths.all()):  # an empty memory: its weights would have to be zeros
        return None
    remembered = beyond = None
    if memory is not None:
        fill = -memory.shape[1] % REGISTER
        remembered = F.pad(torch.stack([part for seen in stack.remember(memory) for part in seen]), (0, 0, 0, fill))
        if fill or lengths is not None:
            ends = memory.shape[1] if lengths is None else lengths.view(-1, 1, 1, 1)
            place = torch.arange(memory.shape[1] + fill, device=memory.device).expand(rows, 1, 1, -1)
            beyond = remembered.new_zeros(place.shape).masked_fill_(place >= ends, -torch.inf)
    return Steps(
        layers=[_Layer.of(block) for block in _blocks(stack)],
        final=stack.final,
        own=_own(stack, rows),
        memory=remembered,
        beyond=beyond,
        origin=torch.arange(rows, device=next(stack.parameters()).device),
    )


def steps_after(stack: Stack, caches: Sequence[Cache], *, missing: Tensor | None = None) -> Steps:
    """The state after the positions in the caches of a stack; row n does not have the first `missing[n]` of them."""
    blocks = _blocks(stack)
    own = Attended.after([cast(MultiHead, block.attention) for block in blocks], caches, missing)
    return Steps(
        layers=[_Layer.of(block) for block in blocks],
        final=stack.final,
        own=own,
        memory=None,
        beyond=None,
        origin=torch.arange(own.past.shape[1], device=own.past.device),
        length=caches[0].length,
        missing=missing,
    )


def _blocks(stack: Stack) -> list[Block]:
    return [cast(Block, block) for block in stack.blocks]


def _own(stack: Stack, rows: int) -> Own:
    parts = [block.attention for block in _blocks(stack)]
    if isinstance(parts[0], SSRU):
        return Gated.empty(cast(list[SSRU], parts), rows)
    return Attended.empty(cast(list[MultiHead], parts), rows)


def _is_plain(block: Block) -> bool:
    """Whether this file can compute every part of a block; a linear map with additions to W x + b (LoRA) is refused."""
    inside, own = block.feed_forward, block.attention
    return (
        type(inside) is FeedForward
        and _are_linear(inside.inner, inside.outer, *([] if inside.gate is None else [inside.gate]))
        and (_is_plain_unit(own) or _is_plain_attention(own))
        and (block.cross is None or _is_plain_attention(block.cross))
    )


def _is_plain_unit(part: nn.Module) -> bool:
    return type(part) is SSRU and _are_linear(part.forget, part.candidate)


def _is_plain_attention(part: nn.Module) -> bool:
    return (
        type(part) is MultiHead
        and _are_linear(part.query, part.key, part.value, part.output)
        and type(part.score) in (Dot, ScaledDot)
        and type(part.position) in (Position, Rotary)
        and type(part.pattern) in (All, Causal)
        and part.heads == part.key_value_heads
    )


def _are_linear(*parts: nn.Module) -> bool:
    return all(type(part) in (nn.Linear, Linear) for part in parts)


@dataclass(frozen=True)
class _Cross:
    query: Map
    output: Map


@dataclass(frozen=True)
class _Layer:
    """The parts of a block, without what it reads its own positions with; 1/√D is within the query's weights."""

    cross: _Cross | None
    feed_forward: Map
    around_attention: Around
    around_cross: Around | None
    around_feed_forward: Around

    @staticmethod
    def of(block: Block) -> _Layer:
        cross = None if block.cross is None else _Cross(linear(*scaled(block.cross)), linear_of(block.cross.output))
        return _Layer(
            cross=cross,
            feed_forward=feed_forward(cast(FeedForward, block.feed_forward)),
            around_attention=Around(block.around_attention),
            around_cross=None if block.around_cross is None else Around(block.around_cross),
            around_feed_forward=Around(block.around_feed_forward),
        )
