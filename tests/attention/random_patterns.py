"""Random scenes: how many queries and keys there are, and a pattern over them made of every kind there is."""

from dataclasses import dataclass
from math import prod

import torch
from hypothesis import strategies as st

from regard.attention.patterns import (
    All,
    Blocks,
    Causal,
    Edges,
    Global,
    Matrix,
    Padding,
    Pattern,
    Random,
    Window,
)

BATCH, HEADS = 2, 3
LENGTHS = st.sampled_from([0, 1, 2, 3, 5, 7, 11, 13, 17, 23, 29])


@dataclass(frozen=True)
class Scene:
    queries: int
    keys: int
    pattern: Pattern


def seeded(draw: st.DrawFn) -> torch.Generator:
    return torch.Generator().manual_seed(draw(st.integers(0, 10_000)))


def at_most(maximum: int) -> st.SearchStrategy[int]:
    return st.integers(1, maximum)


@st.composite
def matrices(draw: st.DrawFn, queries: int, keys: int, batch: int) -> Matrix:
    front = draw(st.sampled_from([(), (batch,), (1,), (batch, HEADS), (batch, 1), (1, HEADS)]))
    return Matrix(torch.rand(*front, queries, keys, generator=seeded(draw)) < draw(st.sampled_from([0.1, 0.5])))


@st.composite
def edge_lists(draw: st.DrawFn, queries: int, keys: int) -> Edges:
    if queries * keys == 0:
        return Edges(torch.empty(0, 2, dtype=torch.int64))
    count = draw(st.integers(0, 3 * queries))
    generator = seeded(draw)
    ends = [torch.randint(n, (count,), generator=generator) for n in (queries, keys)]
    return Edges(torch.stack(ends, 1))


def plain(queries: int, keys: int, batch: int) -> st.SearchStrategy[Pattern]:
    """One pattern on a line, of any kind but blocks."""
    return st.one_of(
        st.just(All()),
        st.just(Causal()),
        st.lists(st.integers(0, keys + 1), min_size=batch, max_size=batch).map(
            lambda n: Padding(torch.tensor(n).long())
        ),
        matrices(queries, keys, batch),
        st.builds(Window, at_most(8), stride=at_most(3), dilation=at_most(3)),
        st.builds(Window, at_most(8)),
        st.builds(Global, st.integers(0, 3)),
        st.builds(Random, st.integers(0, 4), st.integers(-1, 5)),
        edge_lists(queries, keys),
    )


@st.composite
def blocks(draw: st.DrawFn, queries: int, keys: int, batch: int) -> Blocks:
    size = draw(at_most(9))
    return Blocks(size, draw(plain(-(-queries // size), -(-keys // size), batch)))


def combined(leaves: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    """Leaves under `&`, `|`, `~` and `shift(0)`."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda left, right: left & right, inner, inner),
            st.builds(lambda left, right: left | right, inner, inner),
            inner.map(lambda pattern: ~pattern),
        ),
        max_leaves=4,
    )


@st.composite
def scenes(draw: st.DrawFn, lengths: st.SearchStrategy[int] = LENGTHS, batch: int = BATCH) -> Scene:
    """A line of any two lengths, or a grid of one to three axes with as many queries as its stride leaves."""
    if draw(st.booleans()):
        queries, keys = draw(lengths), draw(lengths)
        leaves = st.one_of(plain(queries, keys, batch), blocks(queries, keys, batch))
        return Scene(queries, keys, draw(combined(leaves)))
    shape = tuple(draw(st.lists(at_most(5), min_size=1, max_size=3)))
    stride = draw(at_most(2))
    queries, keys = prod(-(-length // stride) for length in shape), prod(shape)
    widths = st.one_of(at_most(4), st.tuples(*[at_most(4) for _ in shape]))
    grids = st.builds(Window, widths, shape=st.just(shape), stride=st.just(stride), dilation=at_most(2))
    return Scene(queries, keys, draw(combined(st.one_of(grids, plain(queries, keys, batch)))))
