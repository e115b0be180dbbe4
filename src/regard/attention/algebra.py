"""The base class of all patterns, and the operators `&`, `|`, `~` and `shift`.

True means "may look", everywhere. A pattern is one rule, `allows(i, j, keys)`, on tensors of query and key positions,
and a few cheap statements about itself, so that a kernel need not build all queries × keys: `blocks` (which
tiles can hold an allowed pair), `neighbours` (the keys of each query, as a table) and `edges` (the pairs, as a list). A
statement may name too many pairs, never too few: kernels check the named pairs with `allows`.
"""

# ruff: noqa: ARG002    the methods of a pattern have parameters that some patterns do not need

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

Keys = int | Tensor  # how many keys there are, or how many each row of the batch has: (B, 1, 1 …)


@dataclass(frozen=True, eq=False)
class Span:
    """Which keys each row of the batch has: first ≤ j < end, or from the first one and to the last where None."""

    first: Tensor | None = None  # (B,)
    end: Tensor | None = None  # (B,)

    def rows(self, batch: int, keys: int) -> Iterator[tuple[int, int, int]]:
        """The number of each row, its first key, and the one after its last."""
        firsts = [0] * batch if self.first is None else self.first.clamp(0, keys).tolist()
        ends = [keys] * batch if self.end is None else self.end.clamp(0, keys).tolist()
        return zip(range(batch), firsts, ends, strict=True)

    def __and__(self, other: Span) -> Span:
        firsts = [x for x in (self.first, other.first) if x is not None]
        ends = [x for x in (self.end, other.end) if x is not None]
        return Span(
            first=torch.stack(firsts).amax(0) if firsts else None, end=torch.stack(ends).amin(0) if ends else None
        )


class Pattern:
    """Base of all patterns. Positions i, j are int64 tensors that broadcast together.

    The result of `allows` has their broadcast shape; a pattern that differs by batch row or head (padding, a matrix)
    puts (B, 1) or (B, H) in front.
    """

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        """Whether the query at position i may look at the key at position j, where there are `keys` keys."""
        raise NotImplementedError

    def dense(self, queries: int, keys: int, *, device: torch.device | str | None = None) -> Tensor:
        """Every pair, True where allowed: (Q, K), or (B, 1 or H, Q, K) where rows of the batch differ."""
        i = torch.arange(queries, device=device).unsqueeze(1)
        j = torch.arange(keys, device=device).unsqueeze(0)
        allowed = self.allows(i, j, keys)
        return allowed.expand(*allowed.shape[:-2], queries, keys)

    def blocks(self, size: int, queries: int, keys: int) -> Tensor | None:
        """Which tiles of size × size can hold an allowed pair: (⌈Q/size⌉, ⌈K/size⌉), or None for all of them."""
        return None

    def neighbours(self, queries: int, keys: int) -> Tensor | None:
        """The keys of each query as a table (Q, W), each once, −1 where a row has fewer; None if there is no such W.

        W depends on the number of keys alone.
        """
        return None

    def edges(self) -> Tensor | None:
        """The pairs (E, 2) of query and key; None for a pattern that is not a list of pairs."""
        return None

    def check(self, batch: int, heads: int, queries: int, keys: int, *, growing: bool = False) -> None:
        """Raise a RegardError where this pattern does not fit; `growing` means that more keys will follow."""
        for part in self.parts():
            part.check(batch, heads, queries, keys, growing=growing)

    def spans(self) -> tuple[Pattern, Span] | None:
        """This pattern as one that is the same in every row of the batch, and the keys that each row has.

        None if there is no such form, as for a matrix for each row.
        """
        return None if self.holds_tensors() else (self, Span())

    def holds_tensors(self) -> bool:
        """Whether this pattern or a part of it is given by a tensor, which may change with every batch."""
        return any(isinstance(x, Tensor) for x in vars(self).values()) or any(x.holds_tensors() for x in self.parts())

    @property
    def slides(self) -> bool:
        """Whether the distance j − i alone decides."""
        return False

    @property
    def counts_keys(self) -> bool:
        """Whether the number of keys decides too, and not the positions alone."""
        return any(part.counts_keys for part in self.parts())

    @property
    def grain(self) -> int:
        """Numbers of keys that give the same multiple of this, rounded up, give the same pattern."""
        return 1

    def ends(self) -> Tensor | None:
        """How many keys each row of the batch has (B,), where this pattern says so."""
        return None

    def parts(self) -> list[Pattern]:
        """The patterns that this one is made of."""
        return [part for part in vars(self).values() if isinstance(part, Pattern)]

    def shift(self, start: int) -> Pattern:
        """The same pattern for queries that begin at position `start`, as when decoding with a cache."""
        return Shifted(self, start)

    def delay(self, missing: Tensor) -> Pattern:
        """The same pattern in rows of the batch that begin in column `missing[b]`."""
        return Delayed(self, missing)

    def __and__(self, other: Pattern) -> Pattern:
        if isinstance(other, Delay):
            return self.delay(other.missing)
        if isinstance(self, All) or isinstance(other, All):
            return other if isinstance(self, All) else self
        return And(self, other)

    def __or__(self, other: Pattern) -> Pattern:
        return Or(self, other)

    def __invert__(self) -> Pattern:
        return Not(self)


@dataclass(frozen=True)
class All(Pattern):
    """Every query may look at every key."""

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        return torch.ones(torch.broadcast_shapes(i.shape, j.shape), dtype=torch.bool, device=i.device)

    @property
    def slides(self) -> bool:
        return True

    def shift(self, start: int) -> Pattern:
        return self


@dataclass(frozen=True)
class Shifted(Pattern):
    """`pattern` for queries whose first position is `start`."""

    pattern: Pattern
    start: int

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        return self.pattern.allows(i + self.start, j, keys)

    def blocks(self, size: int, queries: int, keys: int) -> Tensor | None:
        tiles = None if self.start % size else self.pattern.blocks(size, self.start + queries, keys)
        return None if tiles is None else tiles[self.start // size :]

    def neighbours(self, queries: int, keys: int) -> Tensor | None:
        table = self.pattern.neighbours(self.start + queries, keys)
        return None if table is None else table[self.start :]

    def check(self, batch: int, heads: int, queries: int, keys: int, *, growing: bool = False) -> None:
        self.pattern.check(batch, heads, self.start + queries, keys, growing=True)


@dataclass(frozen=True)
class And(Pattern):
    """Allowed by both.

    Where one of them says how many keys each row of the batch has, the other counts these keys, and not the padding.
    """

    left: Pattern
    right: Pattern

    def delay(self, missing: Tensor) -> Pattern:
        return And(self.left.delay(missing), self.right.delay(missing))

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        axes = max(i.dim(), j.dim())
        counts = [keys if ends is None else _per_row(ends, axes, j).clamp(max=keys) for ends in self._counted()]
        return self.left.allows(i, j, counts[0]) & self.right.allows(i, j, counts[1])

    def ends(self) -> Tensor | None:
        left, right = self.left.ends(), self.right.ends()
        return right if left is None else left if right is None else torch.minimum(left, right)

    def _counted(self) -> tuple[Tensor | None, Tensor | None]:
        """How many keys each row has (B,) for the left and the right pattern; None where all keys count."""
        left, right = self.left, self.right
        return right.ends() if left.counts_keys else None, left.ends() if right.counts_keys else None

    def blocks(self, size: int, queries: int, keys: int) -> Tensor | None:
        left, right = (
            part.blocks(size, queries, keys) if ends is None else _touched_in_rows(part, ends, size, queries, keys)
            for part, ends in zip(self.parts(), self._counted(), strict=True)
        )
        return right if left is None else left if right is None else left & right

    def neighbours(self, queries: int, keys: int) -> Tensor | None:
        ones = zip(self.parts(), self._counted(), strict=True)
        tables = [part.neighbours(queries, keys) for part, ends in ones if ends is None]
        return min((table for table in tables if table is not None), key=lambda table: table.shape[1], default=None)

    def edges(self) -> Tensor | None:
        left = self.left.edges()
        return self.right.edges() if left is None else left

    def spans(self) -> tuple[Pattern, Span] | None:
        left, right = self.left.spans(), self.right.spans()
        if left is None or right is None:
            return None
        return left[0] & right[0], left[1] & right[1]

    @property
    def slides(self) -> bool:
        return self.left.slides and self.right.slides

    def shift(self, start: int) -> Pattern:
        return And(self.left.shift(start), self.right.shift(start))


@dataclass(frozen=True)
class Or(Pattern):
    """Allowed by either."""

    left: Pattern
    right: Pattern

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        return self.left.allows(i, j, keys) | self.right.allows(i, j, keys)

    def blocks(self, size: int, queries: int, keys: int) -> Tensor | None:
        left, right = self.left.blocks(size, queries, keys), self.right.blocks(size, queries, keys)
        return None if left is None or right is None else left | right

    def edges(self) -> Tensor | None:
        left, right = self.left.edges(), self.right.edges()
        return None if left is None or right is None else torch.cat([left, right]).unique(dim=0)


@dataclass(frozen=True)
class Not(Pattern):
    """Allowed where `pattern` is not."""

    pattern: Pattern

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        return ~self.pattern.allows(i, j, keys)


@dataclass(frozen=True, eq=False)
class Delay(Pattern):
    """Row b of the batch begins in column `missing[b]`: nobody looks at columns before it.

    In `pattern & Delay(missing)` the positions of the pattern count from that column too.
    """

    missing: Tensor

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        shape = torch.broadcast_shapes(i.shape, j.shape)
        return (j >= _per_row(self.missing, len(shape), j)).expand(-1, -1, *shape)

    def spans(self) -> tuple[Pattern, Span]:
        return All(), Span(first=self.missing)

    def shift(self, start: int) -> Pattern:
        return self


@dataclass(frozen=True, eq=False)
class Delayed(Pattern):
    """`pattern` in rows that begin in column `missing[b]`."""

    pattern: Pattern
    missing: Tensor

    def allows(self, i: Tensor, j: Tensor, keys: Keys) -> Tensor:
        start = _per_row(self.missing, max(i.dim(), j.dim()), j)
        return self.pattern.allows(i - start, j - start, keys) & (j >= start)

    def blocks(self, size: int, queries: int, keys: int) -> Tensor | None:
        return self.pattern.blocks(size, queries, keys) if self.pattern.slides else None

    def spans(self) -> tuple[Pattern, Span] | None:
        found = self.pattern.spans() if self.pattern.slides else None
        return None if found is None else (found[0], found[1] & Span(first=self.missing))


def _touched_in_rows(pattern: Pattern, ends: Tensor, size: int, queries: int, keys: int) -> Tensor | None:
    """The tiles that can hold an allowed pair of any row of the batch, where row b has `ends[b]` keys."""
    tiles = torch.zeros(-(-queries // size), -(-keys // size), dtype=torch.bool)
    for end in ends.clamp(0, keys).unique().tolist():
        found = pattern.blocks(size, queries, end)
        if found is None:
            return None
        tiles[:, : found.shape[1]] |= found
    return tiles


def _per_row(numbers: Tensor, axes: int, like: Tensor) -> Tensor:
    """(B,) → (B, 1, 1 …), to be compared with positions of so many axes."""
    return numbers.to(like.device).view(-1, 1, *[1] * axes)
