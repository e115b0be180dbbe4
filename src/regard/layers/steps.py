"""A stack of blocks, one position at a time, in as few calls as possible.

The results are those of `Stack` with caches. A step of a small model is a hundred small products, and calling each of
them through modules, checks and views takes longer than computing it. Reordering beams copies no keys or values: all
beams of a sentence write into one buffer, and a mask says which entries belong to the past of which beam.

    past      (2 L, A, H, E, D)     keys and values of all blocks, an entry for every row of every step
    mine      (A, 1, beams, E)      0 where an entry is the row's own past, −∞ elsewhere
    memory    (2 L, A, H, S, D)     once for each sentence, however many beams look at it

N = A · beams rows  A sentences  L blocks  H heads  D head width  M width  E entries  S memory length
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from regard.layers.feed_forward import FeedForward, bend
from regard.layers.packed import Packed, by_halves
from regard.layers.wiring import NormFirst, NormLast

FEW_HEADS = 32  # rows · heads up to which torch's fused attention is faster than batched products

Map = Callable[[Tensor], Tensor]


@dataclass
class Steps:
    """The state of a stack while decoding. It is used once: `step` changes it in place, `reorder` returns a new one."""

    layers: list[_Layer]
    final: Map
    past: Tensor  # E is padded to whole registers
    mine: Tensor
    memory: Tensor | None  # S is padded to whole registers
    beyond: Tensor | None  # (A, 1, 1, S) −∞ after the end of the memory
    origin: Tensor  # (N,) the sentence that each row looks at
    beams: int = 1  # rows of each sentence; they are adjacent
    entries: int = 0
    length: int = 0  # positions so far
    branched: bool = False  # whether a sentence may have entries that are not the past of all its rows
    missing: Tensor | None = None  # (N,) how many first entries are unused, in rows with a shorter prompt
    packed: Packed | None = None  # the weights of the output layer, if there are several rows

    def step(self, x: Tensor) -> Tensor:
        """The next position of every row: x (N, M) → (N, M)"""
        if recorded():
            raise RegardError("this state keeps no weights; begin recording before model.start(memory)")
        self._make_room()
        now, past, mine = self._views()
        memory = () if self.memory is None else self.memory.unbind(0)
        for number, layer in enumerate(self.layers):
            query = self._write(layer, layer.around_attention.enter(x), now[number])
            found = self._attend(query, past[2 * number], past[2 * number + 1], mine)
            x = layer.around_attention.leave(x, layer.output(found))
            if layer.cross is not None and layer.around_cross is not None:
                query = layer.cross.query(layer.around_cross.enter(x)).view(query.shape)
                found = self._attend(query, memory[2 * number], memory[2 * number + 1], self.beyond)
                x = layer.around_cross.leave(x, layer.cross.output(found))
            x = layer.around_feed_forward.leave(x, layer.feed_forward(layer.around_feed_forward.enter(x)))
        self.entries += self.beams
        self.length += 1
        return self.final(x)

    def output(self, x: Tensor, linear: nn.Linear) -> Tensor:
        """linear(x) (N, V)"""
        if len(x) == 1:
            return by_halves(x, linear)
        if self.packed is None:
            self.packed = Packed(linear)
        return self.packed(x)

    def _make_room(self) -> None:
        """Make an entry for each row of this step and unmask it for that row; unfilled entries are zero and masked."""
        after = self.entries + self.beams
        if after > self.past.shape[3]:
            more = -(-max(after, 2 * self.past.shape[3]) // REGISTER) * REGISTER - self.past.shape[3]
            self.past = F.pad(self.past, (0, 0, 0, more))
            self.mine = F.pad(self.mine, (0, more), value=-torch.inf)
        self.mine[..., self.entries : after].diagonal(dim1=-2, dim2=-1).fill_(0)

    def _views(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor | None]:
        """Where each block writes, L of (2, A, H, beams, D); keys and values to look at, 2 L of (A, H, E, D); the mask.

        Batched products take whole registers of entries; the mask leaves out the unfilled ones.
        """
        after = self.entries + self.beams
        now = self.past[:, :, :, self.entries : after].unflatten(0, (-1, 2)).unbind(0)
        seen = after if self._few else -(-after // REGISTER) * REGISTER
        masked = self.branched or not self._few
        return now, self.past[:, :, :, :seen].unbind(0), self.mine[..., :seen] if masked else None

    @property
    def _few(self) -> bool:
        return self.past.shape[1] * self.past.shape[2] <= FEW_HEADS

    def _write(self, layer: _Layer, x: Tensor, now: Tensor) -> Tensor:
        """Write the keys and values of this position into `now`; return its queries (A, beams, H, D)."""
        projected = layer.projections(x).view(-1, self.beams, 3, layer.heads, now.shape[-1])
        if layer.rotary is not None:
            projected[:, :, :2] = layer.rotary.on_step(projected[:, :, :2], self.length)
        now.copy_(projected[:, :, 1:].permute(2, 0, 3, 1, 4))
        return projected[:, :, 0]

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """All beams of a sentence at once: query (A, beams, H, D), keys and values (A, H, K, D) → (N, M)"""
        attend = _fused if self._few else _batched
        return attend(query, keys, values, mask).view(len(query) * self.beams, -1)

    def reorder(self, rows: Tensor) -> Steps:
        """The state of these rows, in this order. While every sentence keeps its beams, only the mask changes."""
        origin = self.origin.index_select(0, rows)
        missing = None if self.missing is None else self.missing.index_select(0, rows)
        mine = self.mine.flatten(0, 2).index_select(0, rows)  # (N, E)
        if torch.equal(origin, self.origin):
            branched = self.branched or self.beams > 1
            return replace(self, mine=mine.view(self.mine.shape), branched=branched, missing=missing)
        kept, origin, counts = torch.unique_consecutive(origin, return_inverse=True, return_counts=True)
        beams = int(counts[0]) if len(counts) else 1
        if not bool((counts == beams).all()):
            kept, origin, beams = kept[origin], torch.arange(len(rows), device=rows.device), 1
        past, memory, beyond = self.past, self.memory, self.beyond
        if len(kept) != past.shape[1] or not torch.equal(kept, torch.arange(len(kept), device=rows.device)):
            past = past.index_select(1, kept)
            memory = None if memory is None else memory.index_select(1, kept)
            beyond = None if beyond is None else beyond.index_select(0, kept)
        return replace(
            self,
            past=past,
            mine=mine.view(len(kept), 1, beams, mine.shape[-1]),
            memory=memory,
            beyond=beyond,
            origin=origin,
            beams=beams,
            branched=self.branched or max(beams, self.beams) > 1,
            missing=missing,
        )


def can_step(layers: Layers) -> TypeGuard[Stack]:
    """Whether `Steps` can compute every part of the layers, and neither gradients nor recorded weights are wanted."""
    if torch.is_grad_enabled() or recorded() or type(layers) is not Stack:
        return False
    return all(_is_plain(cast(Block, block)) for block in layers.blocks)


def steps_of(stack: Layers, *, rows: int, memory: Tensor | None = None, lengths: Tensor | None = None) -> Steps | None:
    """The state before the first position; None if the stack cannot be stepped.

    memory (A, S, M) with A = rows, of which lengths (A,) are not padding.
    """
    if not can_step(stack):
        return None
    blocks = [cast(Block, block) for block in stack.blocks]
    if lengths is not None and not bool(lengths.all()):  # an empty memory: its weights would have to be zeros
        return None
    layers = [_Layer.of(block) for block in blocks]
    like, heads = cast(MultiHead, blocks[0].attention).key.weight, layers[0].heads
    remembered = beyond = None
    if memory is not None:
        fill = -memory.shape[1] % REGISTER
        remembered = F.pad(torch.stack([part for seen in stack.remember(memory) for part in seen]), (0, 0, 0, fill))
        if fill or lengths is not None:
            ends = memory.shape[1] if lengths is None else lengths.view(-1, 1, 1, 1)
            place = torch.arange(memory.shape[1] + fill, device=like.device).expand(rows, 1, 1, -1)
            beyond = like.new_zeros(place.shape).masked_fill_(place >= ends, -torch.inf)
    return Steps(
        layers=layers,
        final=stack.final,
        past=like.new_zeros(2 * len(blocks), rows, heads, REGISTER, like.shape[1] // heads),
        mine=like.new_full((rows, 1, 1, REGISTER), -torch.inf),
        memory=remembered,
        beyond=beyond,
        origin=torch.arange(rows, device=like.device),
    )


def steps_after(stack: Stack, caches: Sequence[Cache], *, missing: Tensor | None = None) -> Steps:
    """The state after the positions in the caches of a stack; row n does not have the first `missing[n]` of them."""
    past = torch.stack([part for cache in caches for part in cache.held])  # (2 L, N, H, t, D)
    rows, length = past.shape[1], past.shape[3]
    room = REGISTER - length % REGISTER
    mine = past.new_zeros(rows, 1, 1, length)
    if missing is not None:
        mine.masked_fill_(torch.arange(length, device=past.device) < missing.view(-1, 1, 1, 1), -torch.inf)
    return Steps(
        layers=[_Layer.of(cast(Block, block)) for block in stack.blocks],
        final=stack.final,
        past=F.pad(past, (0, 0, 0, room)),
        mine=F.pad(mine, (0, room), value=-torch.inf),
        memory=None,
        beyond=None,
        origin=torch.arange(rows, device=past.device),
        entries=length,
        length=length,
        branched=missing is not None,
        missing=missing,
    )


def _fused(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """query (A, Q, H, D), keys and values (A, H, K, D), mask (A, 1, Q or 1, K) → (A, Q, H, D)"""
    found = F.scaled_dot_product_attention(query.transpose(1, 2), keys, values, mask, scale=1.0)
    return found.transpose(1, 2).contiguous()


def _batched(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """The same by two batched products."""
    sentences, queries, heads, _ = query.shape
    weights = torch.bmm(query.transpose(1, 2).flatten(0, 1), keys.flatten(0, 1).transpose(1, 2))  # (A·H, Q, K)
    if mask is not None:
        weights.view(sentences, heads, queries, -1).add_(mask)
    found = torch.bmm(weights.softmax(-1), values.flatten(0, 1))
    return found.view(sentences, heads, queries, -1).transpose(1, 2).contiguous()


def _is_plain(block: Block) -> bool:
    """Whether this file can compute every part of a block; a linear map with additions to W x + b (LoRA) is refused."""
    attentions = [block.attention] if block.cross is None else [block.attention, block.cross]
    inside = block.feed_forward
    return (
        type(inside) is FeedForward
        and _are_linear(inside.inner, inside.outer, *([] if inside.gate is None else [inside.gate]))
        and all(_is_plain_attention(part) for part in attentions)
    )


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
    """The parts of a block, with one product for query, key and value, and 1/√D within the query's weights."""

    heads: int
    projections: Map  # (N, M) → (N, 3 M)
    rotary: Rotary | None
    output: Map
    cross: _Cross | None
    feed_forward: Map
    around_attention: _Around
    around_cross: _Around | None
    around_feed_forward: _Around

    @staticmethod
    def of(block: Block) -> _Layer:
        attention = cast(MultiHead, block.attention)
        weight, bias = _scaled(attention)
        biases = None if bias is None else torch.cat([bias, attention.key.bias, attention.value.bias])
        cross = None if block.cross is None else _Cross(_linear(*_scaled(block.cross)), _linear_of(block.cross.output))
        return _Layer(
            heads=attention.heads,
            projections=_linear(torch.cat([weight, attention.key.weight, attention.value.weight]), biases),
            rotary=attention.position if isinstance(attention.position, Rotary) else None,
            output=_linear_of(attention.output),
            cross=cross,
            feed_forward=_feed_forward(cast(FeedForward, block.feed_forward)),
            around_attention=_Around(block.around_attention),
            around_cross=None if block.around_cross is None else _Around(block.around_cross),
            around_feed_forward=_Around(block.around_feed_forward),
        )


class _Around:
    """A residual around a sublayer, as two halves; the output of the sublayer may be overwritten."""

    def __init__(self, residual: nn.Module) -> None:
        assert isinstance(residual, NormFirst | NormLast)
        self.norm = _norm(residual.norm)
        self.first = isinstance(residual, NormFirst)
        self.alpha = 1.0 if isinstance(residual, NormFirst) else residual.alpha

    def enter(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.first else x

    def leave(self, x: Tensor, found: Tensor) -> Tensor:
        found = found.add_(x, alpha=self.alpha)
        return found if self.first else self.norm(found)


def _scaled(attention: MultiHead) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of the queries as the score compares them."""
    linear = attention.query
    scale = (linear.out_features // attention.heads) ** -0.5 if isinstance(attention.score, ScaledDot) else 1.0
    return linear.weight * scale, None if linear.bias is None else linear.bias * scale


def _linear(weight: Tensor, bias: Tensor | None) -> Map:
    """As torch's linear, but the weights are transposed once and not at each call."""
    matrix = weight.T
    if bias is None:
        return lambda x: torch.mm(x, matrix)
    return lambda x: torch.addmm(bias, x, matrix)


def _linear_of(linear: nn.Linear) -> Map:
    return _linear(linear.weight, linear.bias)


def _feed_forward(part: FeedForward) -> Map:
    inner, outer, activation = _linear_of(part.inner), _linear_of(part.outer), part.activation
    if part.gate is None:
        return lambda x: outer(bend(inner(x), activation))
    gate = _linear_of(part.gate)
    return lambda x: outer(F.silu(gate(x)) * inner(x))


def _norm(norm: nn.Module) -> Map:
    if not isinstance(norm, nn.LayerNorm):
        return norm
    shape, weight, bias, epsilon = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)
