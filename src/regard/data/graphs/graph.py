"""A graph in memory: features and labels of nodes, and who looks at whom.

N nodes  F features  E edges
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

import numpy
from numpy.typing import NDArray

Numbers = NDArray[numpy.int64]
Values = NDArray[numpy.float32]

UNKNOWN = -1  # the label of a node whose label is not known


@dataclass(frozen=True, eq=False)
class Rows:
    """A sparse matrix (N, F) by rows: the columns and values of row n are those from starts[n] to starts[n + 1]."""

    starts: Numbers
    columns: Numbers
    values: Values
    width: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def pick(self, nodes: Numbers) -> Rows:
        """The rows of these nodes, in this order."""
        places, sizes = spans(self.starts, nodes)
        return Rows(_starts(sizes), self.columns[places], self.values[places], self.width)

    def normalised(self) -> Rows:
        """Each row divided by the sum of its absolute values."""
        rows = numpy.repeat(numpy.arange(len(self)), numpy.diff(self.starts))
        sums = numpy.bincount(rows, weights=numpy.abs(self.values), minlength=len(self))
        sums[sums == 0] = 1
        return replace(self, values=(self.values / sums[rows]).astype(numpy.float32))


Features = Rows | Values  # sparse, or dense (N, F)


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes by number, with what is known of them.

    features  (N, F)
    seen      E pairs, by the node that looks: its neighbours are keys[starts[n] : starts[n + 1]], in order, each once
    labels    (N,) numbers of `classes`, or UNKNOWN
    names     the id of each node in its file; empty if the ids are the numbers from 0
    """

    name: str
    features: Features
    starts: Numbers
    keys: Numbers
    labels: Numbers
    classes: tuple[str, ...]
    names: tuple[str, ...] = ()
    parts: dict[str, Numbers] = field(default_factory=dict)  # "train", "valid", "test" → nodes

    @property
    def nodes(self) -> int:
        return len(self.labels)

    @property
    def width(self) -> int:
        """The number of features."""
        return self.features.width if isinstance(self.features, Rows) else self.features.shape[1]

    @property
    def rows(self) -> Numbers:
        """The node that looks, for each edge (E,)."""
        return numpy.repeat(numpy.arange(self.nodes), numpy.diff(self.starts))

    def label(self, node: int) -> str:
        """The name of a node's label; empty if it is not known."""
        return "" if self.labels[node] == UNKNOWN else self.classes[self.labels[node]]

    def id_of(self, node: int) -> str:
        """What a node is called in its file."""
        return self.names[node] if self.names else str(node)

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each id."""
        names = self.names or tuple(map(str, range(self.nodes)))
        return {name: number for number, name in enumerate(names)}

    def labelled(self) -> Numbers:
        """The nodes whose label is known."""
        return numpy.flatnonzero(self.labels != UNKNOWN)

    def checksum(self) -> str:
        """Changes when the graph does."""
        digest = sha256(repr((self.classes, self.names)).encode())
        parts = [self.features.columns, self.features.values] if isinstance(self.features, Rows) else [self.features]
        for each in (self.starts, self.keys, self.labels, *parts, *self.parts.values()):
            digest.update(numpy.ascontiguousarray(each).tobytes())
        return digest.hexdigest()

    def pick(self, nodes: Numbers, starts: Numbers, keys: Numbers) -> Graph:
        """The graph of some nodes, which get the numbers from 0, with edges among these numbers."""
        features = self.features.pick(nodes) if isinstance(self.features, Rows) else self.features[nodes]
        names = tuple(self.id_of(node) for node in nodes.tolist())
        return Graph(self.name, features, starts, keys, self.labels[nodes], self.classes, names)


def connected(
    pairs: Numbers, nodes: int, *, directed: bool = False, self_loops: bool = True
) -> tuple[Numbers, Numbers]:
    """`starts` and `keys` of a graph from pairs (E, 2), source and target: the target looks at the source.

    Unless `directed`, both look at each other. With `self_loops` every node looks at itself. Edges that are there
    twice count once.
    """
    queries, keys = [pairs[:, 1]], [pairs[:, 0]]
    if not directed:
        queries, keys = [*queries, pairs[:, 0]], [*keys, pairs[:, 1]]
    if self_loops:
        queries, keys = [*queries, numpy.arange(nodes)], [*keys, numpy.arange(nodes)]
    codes = numpy.unique(numpy.concatenate(queries) * nodes + numpy.concatenate(keys))
    rows, columns = numpy.divmod(codes, max(nodes, 1))
    return _starts(numpy.bincount(rows, minlength=nodes)), columns


def neighbourhood(
    graph: Graph, nodes: Numbers, hops: Sequence[int | None], generator: numpy.random.Generator | None = None
) -> tuple[Graph, Numbers]:
    """The nodes, then all that is within so many edges of them, and the number that each of these has in `graph`.

    An entry of `hops` is the number of neighbours that are drawn of each node at that distance (Hamilton 2017), or
    None for all. A node always keeps its edge to itself. Nodes at the last distance look at nothing else.
    """
    known = numpy.full(graph.nodes, -1, dtype=numpy.int64)
    known[nodes] = numpy.arange(len(nodes))
    found, edge, queries, keys = [nodes], nodes, [], []
    count = len(nodes)
    for most in hops:
        places, sizes = spans(graph.starts, edge)
        looking = numpy.repeat(edge, sizes)
        if most is not None:
            assert generator is not None, "neighbours are drawn by a generator"
            chosen = _some(looking, graph.keys[places], sizes, most, generator)
            places, looking = places[chosen], looking[chosen]
        queries.append(looking)
        keys.append(graph.keys[places])
        new = numpy.unique(graph.keys[places])
        edge = new[known[new] < 0]
        known[edge] = count + numpy.arange(len(edge))
        count += len(edge)
        found.append(edge)
    places, sizes = spans(graph.starts, edge)  # the last nodes see themselves alone, if they do
    looking = numpy.repeat(edge, sizes)
    loops = graph.keys[places] == looking
    queries.append(looking[loops])
    keys.append(looking[loops])
    nodes = numpy.concatenate(found)
    codes = numpy.sort(known[numpy.concatenate(queries)] * count + known[numpy.concatenate(keys)])
    rows, columns = numpy.divmod(codes, max(count, 1))
    return graph.pick(nodes, _starts(numpy.bincount(rows, minlength=count)), columns), nodes


def spans(starts: Numbers, nodes: Numbers) -> tuple[Numbers, Numbers]:
    """The places from starts[n] to starts[n + 1] of each of these nodes, one after another, and how many each has."""
    sizes = starts[nodes + 1] - starts[nodes]
    offsets = numpy.repeat(starts[nodes] - numpy.concatenate([[0], numpy.cumsum(sizes)[:-1]]), sizes)
    return offsets + numpy.arange(sizes.sum()), sizes


def _some(
    looking: Numbers, looked_at: Numbers, sizes: Numbers, most: int, generator: numpy.random.Generator
) -> Numbers:
    """The places of up to `most` neighbours of each node, drawn evenly, and of its edge to itself."""
    loops, groups = looking == looked_at, numpy.repeat(numpy.arange(len(sizes)), sizes)
    order = numpy.lexsort((numpy.where(loops, -1.0, generator.random(len(looking))), groups))
    rank = numpy.arange(len(order)) - numpy.repeat(numpy.cumsum(sizes) - sizes, sizes)
    own = numpy.bincount(groups, weights=loops, minlength=len(sizes))
    return numpy.sort(order[rank < most + own[groups]])


def _starts(sizes: Numbers) -> Numbers:
    return numpy.concatenate([[0], numpy.cumsum(sizes)]).astype(numpy.int64)
