"""Attention over a long text, whose weights are too many to be kept: n tokens have n² for each head.

Of each attention a record then has up to three maps, and each says what it is:

    coarse    all tokens, b at a time:  c_IJ = 1/|I| Σ_{i∈I} Σ_{j∈J} w_ij, so that a row still sums to one
    window    every weight between some tokens that follow each other
    places    the whole rows of the tokens that the answer was read from, if they are few

They are taken from the weights as these come, attention by attention. Sparse weights never become dense.

B batch  H heads  Q queries  K keys
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.attention.recorder import Recorder
from regard.look.record import Map
from regard.look.watch import inputs_of, is_recurrent, layer_of, sides_of, watched
from regard.tasks.base import Side, Sight

MOST_TOKENS = 2048  # of a text whose weights are all kept
MOST_WEIGHTS = 40_000_000  # of all heads, if all are kept
MOST_KEPT = 7_000_000  # of a longer text: 10 MB of JSON, a byte each in base64
SMALLEST, LARGEST = 32, 256  # rows and columns of a coarse map and of a window
TOGETHER = 1 << 27  # weights of one attention that are computed at a time: with more, one head after the other
MOST_SALIENT = 8  # answer items whose saliency is computed

Range = tuple[int, int]  # from the first to before the end


@dataclass(frozen=True)
class Long:
    """How to look at a text that is too long: maps of at most `size` rows and columns, and a window from `first` on."""

    tokens: int
    size: int
    first: int
    places: tuple[int, ...]
    turns: tuple[int | None, ...]  # the heads to look at one after the other; None for all at once

    @classmethod
    def of(cls, module: nn.Module, sight: Sight, *, only: str, head: int | None, first: int | None) -> Long | None:
        """None if all weights can be kept."""
        tokens = max((each.shape[1] for each in sight.given if each.dim() > 1), default=0)
        counts = [1 if head is not None else heads for heads in _heads(module, only)] or [1]
        if tokens <= MOST_TOKENS and sum(counts) * tokens**2 <= MOST_WEIGHTS:
            return None
        size = min(max(math.isqrt(MOST_KEPT // (2 * sum(counts))), SMALLEST), LARGEST)
        last = max(tokens - size, 0)
        begin = (last if sight.inputs is not None else 0) if first is None else min(max(first, 0), last)
        places = tuple(dict.fromkeys(sight.places))
        few = places if len(places) * tokens <= size * size else ()
        alone = head is None and max(counts) * tokens**2 > TOGETHER
        return cls(tokens, size, begin, few, tuple(range(max(counts))) if alone else (head,))

    def within(self, count: int) -> Range:
        """The window in a side of `count` items; few items are all in it."""
        first = min(self.first, max(count - self.size, 0))
        return first, min(first + self.size, count)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the viewer must know."""
        first, end = self.within(self.tokens)
        return (
            f"The text has {self.tokens:,} tokens, too many to keep every weight: there are coarse maps of the whole "
            f"text, and maps of the tokens {first:,} to {end - 1:,} with every weight between them. "
            "Choose other tokens with --from.",
        )

    def look(
        self, module: nn.Module, sight: Sight, *, only: str
    ) -> tuple[Tensor, Recorder, dict[str, list[tuple[int | None, Reduced]]]]:
        """The result of `sight.logits`, and what is kept of the weights, for each path and turn."""
        kept: dict[str, list[tuple[int | None, Reduced]]] = {}
        for turn in self.turns:
            parts: dict[str, Reduced] = {}

            def sink(path: str, weights: Tensor, parts: dict[str, Reduced] = parts) -> None:
                turned = weights.flip(2, 3) if sight.reads_backwards(path) else weights
                parts.setdefault(path, Reduced()).add(turned, self)

            logits, seen = watched(module, lambda: sight.logits(None), only=only, head=turn, sink=sink)
            for path, reduced in parts.items():
                kept.setdefault(path, []).append((turn, reduced))
        return logits, seen, kept


@dataclass
class Reduced:
    """What is kept of one attention: weights (H, …, …) by name. A short one, such as one step of a decoder, is kept
    whole."""

    parts: dict[str, Tensor] = field(default_factory=dict)
    shape: tuple[int, int] = (0, 0)  # of all weights: (Q, K)

    def add(self, weights: Tensor, long: Long) -> None:
        """Keep parts of weights (1, H, Q, K)."""
        queries, keys = weights.shape[2:]
        self.shape = self.shape[0] + queries, keys
        for name, part in _parts(weights, long):
            here = part.float().cpu()
            self.parts[name] = torch.cat([self.parts[name], here], 1) if name in self.parts else here


def maps_of(
    module: nn.Module,
    seen: Recorder,
    sight: Sight,
    long: Long,
    kept: Mapping[str, Sequence[tuple[int | None, Reduced]]],
    sides: dict[str, Side],
) -> tuple[Map, ...]:
    """The maps of what was kept; the sides that they look from and at are added to `sides`."""
    maps = []
    for path, turns in kept.items():
        query, key = sides_of(seen, sight, path)
        queries, keys = turns[0][1].shape
        inputs = inputs_of(sight, query, key)
        columns = inputs or _items(sides.get(key), key, keys)
        rows = _items(sides.get(query), query, queries)
        gates = is_recurrent(module, seen, path)
        for name in turns[0][1].parts:
            weights = torch.cat([reduced.parts[name] for _, reduced in turns])
            heads = tuple(range(len(weights))) if turns[0][0] is None else tuple(int(turn or 0) for turn, _ in turns)
            across, down = _Axis.of(name, key, columns, long), _Axis.of(name, query, rows, long, rows=True)
            read = across.items if inputs is not None and name in ("window", "whole") else None
            for axis in (across, down):
                sides.setdefault(axis.side, Side(axis.items, kind="tokens"))
            maps.append(
                Map(
                    name=path if name in ("coarse", "whole") else f"{path}, {name}",
                    kind="gates" if gates else "self" if query == key else "cross",
                    query=down.side,
                    key=across.side,
                    weights=weights,
                    heads=heads,
                    layer=layer_of(path),
                    sums="any" if gates or name == "window" else "one",
                    inputs=read,
                    part=_sentence(name, down, across),
                )
            )
    return tuple(maps)


@dataclass(frozen=True)
class _Axis:
    """The rows or the columns of a map: the name of their side, and their items."""

    side: str
    items: tuple[str, ...]
    step: int = 1

    @classmethod
    def of(cls, name: str, side: str, items: Sequence[str], long: Long, *, rows: bool = False) -> _Axis:
        count = len(items)
        if name == "places" and rows:
            return cls(f"{side} behind the answer", tuple(items[place] for place in long.places))
        step = _step(count, long.size)
        if name in ("whole", "places") or step == 1:
            return cls(side, tuple(items))
        if name == "window":
            first, end = long.within(count)
            return cls(f"{side} {first} to {end - 1}", tuple(items[first:end]))
        starts = range(0, count, step)
        named = tuple(f"{start}–{min(start + step, count) - 1} {items[start]}" for start in starts)
        return cls(f"{side}, {step} at a time", named, step)


def _sentence(name: str, down: _Axis, across: _Axis) -> str:
    if name == "coarse":
        return (
            f"A coarse map: a row is the mean of the rows of {down.step} items, and a column the sum of the weights on "
            f"{across.step} items."
        )
    if name == "window":
        return "A part of each row: weights on items outside of the window are left out, so the rows do not sum to one."
    return "The whole rows of the items that the answer was read from." if name == "places" else ""


def _parts(weights: Tensor, long: Long) -> Iterator[tuple[str, Tensor]]:
    """The parts of weights (1, H, Q, K), dense or sparse, by name."""
    queries, keys = weights.shape[2:]
    if queries * keys <= long.size**2:
        yield "whole", weights[0].to_dense() if weights.is_sparse else weights[0]
        return
    yield "coarse", coarse(weights, long.size)[0]
    yield "window", _block(weights, long.within(queries), long.within(keys))[0]
    if long.places and max(long.places) < queries:
        rows = [_block(weights, (place, place + 1), (0, keys)) for place in long.places]
        yield "places", torch.cat(rows, 2)[0]


def coarse(weights: Tensor, size: int) -> Tensor:
    """Weights (B, H, Q, K), dense or sparse, as at most `size` rows and columns: the mean of the rows that stand
    together, and the sum of the columns.   → (B, H, q, k)"""
    batch, heads, queries, keys = weights.shape
    down, across = _step(queries, size), _step(keys, size)
    rows, columns = -(-queries // down), -(-keys // across)
    found = torch.zeros(batch, heads, rows, columns, device=weights.device)
    if weights.is_sparse:
        b, h, i, j = weights._indices()
        place = ((b * heads + h) * rows + i // down) * columns + j // across
        found.view(-1).index_add_(0, place, weights._values().float())
    else:
        column = torch.arange(keys, device=weights.device) // across
        for row in range(rows):
            some = weights[:, :, row * down : (row + 1) * down].sum(2)  # (B, H, K)
            found[:, :, row].index_add_(2, column, some.float())
    counts = torch.full((rows, 1), float(down), device=weights.device)
    counts[-1] = queries - (rows - 1) * down
    return found / counts


def _block(weights: Tensor, rows: Range, columns: Range) -> Tensor:
    """Some rows and columns of weights (B, H, Q, K), dense or sparse, as a dense tensor."""
    if not weights.is_sparse:
        return weights[:, :, rows[0] : rows[1], columns[0] : columns[1]].clone()
    index, values = weights._indices(), weights._values()
    i, j = index[2] - rows[0], index[3] - columns[0]
    height, width = rows[1] - rows[0], columns[1] - columns[0]
    inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
    found = torch.zeros(*weights.shape[:2], height, width, device=weights.device, dtype=values.dtype)
    found.index_put_((index[0][inside], index[1][inside], i[inside], j[inside]), values[inside], accumulate=True)
    return found


def _step(count: int, size: int) -> int:
    """How many items stand together so that `count` items become at most `size`."""
    return max(-(-count // size), 1)


def _items(side: Side | None, name: str, count: int) -> tuple[str, ...]:
    """The names of the items of a side; those of a side without names are numbers."""
    if side is not None and len(side.items) == count:
        return side.items
    return tuple(f"{name} {number + 1}" for number in range(count))


def _heads(module: nn.Module, only: str) -> list[int]:
    """The heads of each attention whose path matches `only`."""
    found = ((path, each) for path, each in module.named_modules() if isinstance(each, MultiHead))
    return [each.heads for path, each in found if only == "*" or fnmatchcase(path, only)]
