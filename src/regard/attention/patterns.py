"""Which keys a query may look at, as values with an algebra.

    Causal() & Padding(lengths)         Window(3) | Global(2)         ~Edges(pairs)

True means "may look", everywhere. Their base class and operators are in algebra.py.
"""

# ruff: noqa: ARG002    the methods of a pattern have parameters that some patterns do not need

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.algebra import All, And, Delay, Keys, Not, Or, Pattern, Shifted, Span
from regard.errors import RegardError
from regard.kernels.sparse import Cells

__all__ = [
    "All",
    "And",
    "Blocks",
    "Causal",
    "Delay",
    "Edges",
    "Global",
    "Matrix",
    "Not",
    "Or",
    "Padding",
    "Pattern",
    "Random",
    "Shifted",
    "Window",
]


@dataclass(frozen=True)
class Causal(Pattern):
    """No query may look ahead: j ≤ i."""

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        return j <= i

    def blocks(self, size: int, queries: int, keys: int) -> Tensor:
        rows, columns = _tiles(size, queries, keys)
        return columns <= rows

    @property
    def slides(self) -> bool:
        return True

    def shift(self, start: int) -> Pattern:
        return self if start == 0 else Shifted(self, start)


@dataclass(frozen=True, eq=False)
class Padding(Pattern):
    """Row b of the batch may look at its first `lengths[b]` keys."""

    lengths: Tensor

    def __post_init__(self) -> None:
        if self.lengths.dim() != 1 or self.lengths.dtype not in _WHOLE:
            got = f"{tuple(self.lengths.shape)} of {self.lengths.dtype}"
            raise RegardError(f"Padding(lengths): expected whole numbers of shape (batch,), got {got}")

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        shape = torch.broadcast_shapes(i.shape, j.shape)
        lengths = self.lengths.to(j.device).view(-1, 1, *[1] * len(shape))
        return (j < lengths).expand(-1, -1, *shape)

    def ends(self) -> Tensor:
        return self.lengths

    def delay(self, missing: Tensor) -> Pattern:
        return And(Padding(self.lengths + missing), Delay(missing))

    def spans(self) -> tuple[Pattern, Span]:
        return All(), Span(end=self.lengths)

    def check(self, batch: int, heads: int, queries: int, keys: int, *, growing: bool = False) -> None:
        if len(self.lengths) != batch:
            raise RegardError(f"Padding(lengths): {len(self.lengths)} lengths do not fit a batch of {batch}")

    def shift(self, start: int) -> Pattern:
        return self


@dataclass(frozen=True, eq=False)
class Matrix(Pattern):
    """An arbitrary 0/1 matrix M: (Q, K), (B, Q, K) or (B, H, Q, K)."""

    matrix: Tensor

    def __post_init__(self) -> None:
        if self.matrix.dim() not in (2, 3, 4):
            raise RegardError(
                f"Matrix(matrix): expected (Q, K), (B, Q, K) or (B, H, Q, K), got shape {tuple(self.matrix.shape)}"
            )
        if self.matrix.dtype != torch.bool and not ((self.matrix == 0) | (self.matrix == 1)).all():
            raise RegardError(
                "Matrix(matrix): expected True or 1 where a query may look, False or 0 elsewhere, got other numbers; "
                "numbers to add to the scores are given as bias"
            )

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        matrix = self.matrix.unsqueeze(1) if self.matrix.dim() == 3 else self.matrix
        return matrix.to(i.device)[..., i, j].bool()

    def check(self, batch: int, heads: int, queries: int, keys: int, *, growing: bool = False) -> None:
        shape = self.matrix.shape
        rows, columns = shape[-2:]
        fits = (rows, columns) == (queries, keys) or (growing and rows >= queries and columns >= keys)
        fits = fits and (len(shape) < 3 or shape[0] in (1, batch)) and (len(shape) < 4 or shape[1] in (1, heads))
        if not fits:
            raise RegardError(
                f"Matrix(matrix): shape {tuple(shape)} does not fit batch {batch}, heads {heads}, "
                f"queries {queries} and keys {keys}"
            )


@dataclass(frozen=True)
class Window(Pattern):
    """A neighbourhood of `width` positions centred on the query: i·stride − ⌊w/2⌋ ≤ j ≤ i·stride + ⌊(w−1)/2⌋.

    On a grid (`shape=(rows, columns)` or `(frames, rows, columns)`, positions in row-major order) the same holds along
    every axis. `dilation` d keeps every d-th position, `stride` s places queries s positions apart, as in convolutions.
    """

    width: int | tuple[int, ...]
    shape: tuple[int, ...] | None = None
    stride: int = 1
    dilation: int = 1

    def __post_init__(self) -> None:
        widths, shape = _tuple(self.width), self.shape or ()
        numbers = {"width": widths, "shape": shape, "stride": (self.stride,), "dilation": (self.dilation,)}
        for name, values in numbers.items():
            if any(value < 1 for value in values):
                raise RegardError(f"Window({name}={getattr(self, name)}): expected a whole number of at least 1")
        if len(widths) not in (1, len(shape)):
            raise RegardError(
                f"Window(width={self.width}, shape={self.shape}): expected one width or one for each axis of the grid, "
                "as in Window((3, 5), shape=(14, 14))"
            )

    def _axes(self, keys: int) -> list[tuple[int, int]]:
        """Width and length of each axis, last axis first; the length of a single axis does not decide."""
        widths, shape = _tuple(self.width), self.shape or (max(keys, 1),)
        widths = widths if len(widths) == len(shape) else widths * len(shape)
        return list(zip(reversed(widths), reversed(shape), strict=True))

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        allowed = torch.ones((), dtype=torch.bool, device=i.device)
        axes = self._axes(1 if isinstance(keys, Tensor) else keys)
        for axis, (width, length) in enumerate(axes):
            outermost = axis == len(axes) - 1
            row = _ceil(length, self.stride)
            offset = (j if outermost else j % length) - (i if outermost else i % row) * self.stride
            allowed = allowed & (offset >= -(width // 2) * self.dilation)
            allowed = allowed & (offset <= (width - 1) // 2 * self.dilation) & (offset % self.dilation == 0)
            i, j = i // row, j // length
        return allowed

    @property
    def slides(self) -> bool:
        return self.shape is None and self.stride == 1

    def blocks(self, size: int, queries: int, keys: int) -> Tensor | None:
        if self.stride > 1:
            return None
        before = after = 0
        step = 1
        for width, length in self._axes(keys):
            before += width // 2 * self.dilation * step
            after += (width - 1) // 2 * self.dilation * step
            step *= length
        rows, columns = _tiles(size, queries, keys)
        return (columns + size - 1 >= rows - before) & (columns <= rows + size - 1 + after)

    def neighbours(self, queries: int, keys: int) -> Tensor:
        axes = self._axes(keys)
        i = torch.arange(queries)
        table = torch.zeros(queries, 1, dtype=torch.int64)
        inside = torch.ones(queries, 1, dtype=torch.bool)
        step = 1
        for axis, (width, length) in enumerate(axes):
            outermost = axis == len(axes) - 1
            row = _ceil(length, self.stride)
            offsets = torch.arange(-(width // 2), (width - 1) // 2 + 1) * self.dilation
            there = (i if outermost else i % row).unsqueeze(1) * self.stride + offsets  # (Q, w)
            inside = (inside.unsqueeze(1) & ((there >= 0) & (there < length)).unsqueeze(2)).flatten(1)
            table = (table.unsqueeze(1) + (there * step).unsqueeze(2)).flatten(1)
            i, step = i // row, step * length
        return table.masked_fill(~inside | (table >= keys), -1)

    def check(self, batch: int, heads: int, queries: int, keys: int, *, growing: bool = False) -> None:
        if self.shape is None:
            return
        there = math.prod(self.shape)
        here = math.prod(_ceil(length, self.stride) for length in self.shape)
        if not (queries == here and keys == there) and not (growing and queries <= here and keys <= there):
            raise RegardError(
                f"Window(shape={self.shape}, stride={self.stride}): the grid has {here} queries and {there} keys, "
                f"but there are {queries} and {keys}"
            )


@dataclass(frozen=True)
class Global(Pattern):
    """The first `count` positions look at all positions, and all positions look at them."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise RegardError(f"Global(count={self.count}): expected a whole number of at least 0")

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        return (i < self.count) | (j < self.count)

    def blocks(self, size: int, queries: int, keys: int) -> Tensor:
        rows, columns = _tiles(size, queries, keys)
        return (rows < self.count) | (columns < self.count)


@dataclass(frozen=True)
class Random(Pattern):
    """Every query may look at `count` different keys, drawn once by `seed`: one from each of `count` equal stretches.

    One key from each stretch makes the keys different and spread out, and `allows` can answer for any single pair.
    """

    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 0:
            raise RegardError(f"Random(count={self.count}): expected a whole number of at least 0")

    @property
    def counts_keys(self) -> bool:
        return True

    def _draw(self, i: Tensor, stretch: Tensor, keys: Keys) -> Tensor:
        """The key that query i draws from a stretch ⌊s·K/c⌋ … ⌊(s+1)·K/c⌋ − 1."""
        first = stretch * keys // self.count
        size = ((stretch + 1) * keys // self.count - first).clamp(min=1)
        seed = (self.seed + 1) * 40503 & 0x7FFFFFFF
        return first + _scramble(_scramble(i + 1) ^ (stretch + 1) * 2654435761 ^ seed) % size

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        if self.count == 0:
            return ~All().allows(i, j, keys)
        keys = torch.as_tensor(keys, device=j.device).clamp(min=1)
        stretch = ((j + 1) * self.count - 1) // keys
        return (self._draw(i, stretch, keys) == j) | (keys <= self.count)

    def neighbours(self, queries: int, keys: int) -> Tensor | None:
        if self.count >= keys:
            return None
        return self._draw(torch.arange(queries).unsqueeze(1), torch.arange(self.count).unsqueeze(0), keys)

    def blocks(self, size: int, queries: int, keys: int) -> Tensor | None:
        table = self.neighbours(queries, keys)
        if table is None:
            return None
        return _touched(torch.arange(queries).unsqueeze(1).expand_as(table), table, size, queries, keys)

    def check(self, batch: int, heads: int, queries: int, keys: int, *, growing: bool = False) -> None:
        if growing:
            raise RegardError(
                f"Random(count={self.count}) draws from all the keys there are, and a cache does not hold them yet; "
                "decode without a cache, or with a pattern that does not depend on the number of keys"
            )


@dataclass(frozen=True, eq=False)
class Edges(Pattern):
    """The edges of a graph: `pairs` (E, 2), each the position of a query and of a key it may look at."""

    pairs: Tensor

    def __post_init__(self) -> None:
        if self.pairs.dim() != 2 or self.pairs.shape[1] != 2 or self.pairs.dtype not in _WHOLE:
            got = f"{tuple(self.pairs.shape)} of {self.pairs.dtype}"
            raise RegardError(
                f"Edges(pairs): expected whole numbers of shape (edges, 2), (query, key) a row, got {got}"
            )
        if self.pairs.numel() and int(self.pairs.min()) < 0:
            raise RegardError(f"Edges(pairs): positions start at 0, got {int(self.pairs.min())}")
        object.__setattr__(self, "pairs", self.pairs.long().unique(dim=0))

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        pairs, keys = self.pairs.to(i.device), int(keys.max()) if isinstance(keys, Tensor) else keys
        pairs = pairs[pairs[:, 1] < keys]
        return torch.isin(i * keys + j, pairs[:, 0] * keys + pairs[:, 1])

    def blocks(self, size: int, queries: int, keys: int) -> Tensor:
        inside = self.pairs[(self.pairs[:, 0] < queries) & (self.pairs[:, 1] < keys)]
        return _touched(inside[:, 0], inside[:, 1], size, queries, keys)

    def edges(self) -> Tensor:
        return self.pairs

    def cells(self, queries: int, keys: int) -> Cells:
        """The edges as cells of a matrix (Q, K), made once."""
        known = self._cells.get((queries, keys))
        if known is None:
            known = Cells.sorted(self.pairs[:, 0], self.pairs[:, 1], (queries, keys))
            self._cells[queries, keys] = known
        return known

    @cached_property
    def _cells(self) -> dict[tuple[int, int], Cells]:
        return {}

    def check(self, batch: int, heads: int, queries: int, keys: int, *, growing: bool = False) -> None:
        beyond = self.pairs[(self.pairs[:, 0] >= queries) | (self.pairs[:, 1] >= keys)]
        if len(beyond) and not growing:
            raise RegardError(
                f"Edges(pairs): the pair {tuple(beyond[0].tolist())} points beyond the {queries} queries "
                f"or the {keys} keys that there are"
            )


@dataclass(frozen=True)
class Blocks(Pattern):
    """A pattern over blocks of `size` positions instead of single ones, as Big Bird has it.

    `Blocks(64, Window(3) | Global(1) | Random(3, seed=0))` is window + global + random blocks.
    """

    size: int
    pattern: Pattern

    def __post_init__(self) -> None:
        if self.size < 1:
            raise RegardError(f"Blocks(size={self.size}): expected a whole number of at least 1")

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        return self.pattern.allows(i // self.size, j // self.size, -(-keys // self.size))

    @property
    def grain(self) -> int:
        return self.size

    def blocks(self, size: int, queries: int, keys: int) -> Tensor:
        coarse = self.pattern.dense(_ceil(queries, self.size), _ceil(keys, self.size))
        coarse = coarse.flatten(0, -3).any(0) if coarse.dim() > 2 else coarse
        # How many allowed blocks lie above and to the left of each corner; four corners count those that a tile meets.
        corner = F.pad(coarse.cumsum(0).cumsum(1), (1, 0, 1, 0))
        rows, columns = (torch.arange(0, length, size) for length in (queries, keys))
        top, left = rows.unsqueeze(1) // self.size, columns // self.size
        bottom = (rows + size).clamp(max=queries).sub(1).unsqueeze(1) // self.size + 1
        right = (columns + size).clamp(max=keys).sub(1) // self.size + 1
        return corner[bottom, right] - corner[top, right] - corner[bottom, left] + corner[top, left] > 0

    def check(self, batch: int, heads: int, queries: int, keys: int, *, growing: bool = False) -> None:
        self.pattern.check(batch, heads, _ceil(queries, self.size), _ceil(keys, self.size), growing=growing)


_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _tuple(width: int | tuple[int, ...]) -> tuple[int, ...]:
    return width if isinstance(width, tuple) else (width,)


def _ceil(length: int, size: int) -> int:
    return -(-length // size)


def _tiles(size: int, queries: int, keys: int) -> tuple[Tensor, Tensor]:
    """The first position of every tile, for queries as a column and for keys as a row."""
    return torch.arange(0, queries, size).unsqueeze(1), torch.arange(0, keys, size).unsqueeze(0)


def _touched(i: Tensor, j: Tensor, size: int, queries: int, keys: int) -> Tensor:
    """The tiles that hold at least one of the pairs (i, j)."""
    tiles = torch.zeros(_ceil(queries, size), _ceil(keys, size), dtype=torch.bool)
    tiles[i.cpu() // size, j.cpu() // size] = True
    return tiles


def _scramble(x: Tensor) -> Tensor:
    """A fixed hash of non-negative whole numbers, spread over 0 … 2³¹ − 1."""
    x = x & 0x7FFFFFFF
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0x7FFFFFFF
    x = ((x ^ (x >> 15)) * 0x45D9F3B) & 0x7FFFFFFF
    return x ^ (x >> 16)
