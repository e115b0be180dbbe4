"""A graph as batches: the whole graph at once, or neighbourhoods that are drawn around some nodes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy
import torch
from torch import Tensor

from regard.data.graphs.graph import Graph, Numbers, Rows, neighbourhood
from regard.data.streams import WHOLE, Share, Stream, TensorBatch
from regard.kernels.sparse import Cells, Sparse


@dataclass(frozen=True)
class GraphBatch(TensorBatch):
    """Some nodes of a graph, with all that is needed to tell their labels.

    features  (N, F)   dense or sparse
    cells     (N, N)   row n has the nodes that node n looks at
    nodes     (T,)     rows of the nodes in question
    wanted    (T,)     their labels
    """

    features: Tensor | Sparse
    cells: Cells
    nodes: Tensor
    wanted: Tensor

    @property
    def targets(self) -> int:
        return len(self.nodes)

    def to(self, device: torch.device | str) -> GraphBatch:
        if self.nodes.device == torch.device(device):
            return self
        return replace(super().to(device), features=self.features.to(device), cells=self.cells.to(device))


def assembled(graph: Graph, nodes: Numbers, labels: Numbers) -> GraphBatch:
    """A batch of a whole graph; `labels` are those of the nodes in question."""
    features = graph.features
    if isinstance(features, Rows):
        rows = numpy.repeat(numpy.arange(len(features)), numpy.diff(features.starts))
        cells = Cells.sorted(torch.from_numpy(rows), torch.from_numpy(features.columns), (len(features), graph.width))
        given: Tensor | Sparse = Sparse(cells, torch.from_numpy(features.values))
    else:
        given = torch.from_numpy(numpy.ascontiguousarray(features))
    return GraphBatch(
        features=given,
        cells=Cells.sorted(torch.from_numpy(graph.rows), torch.from_numpy(graph.keys), (graph.nodes, graph.nodes)),
        nodes=torch.from_numpy(nodes),
        wanted=torch.from_numpy(labels),
    )


class GraphStream(Stream[GraphBatch]):
    """The whole graph in one batch, which is one epoch.

    Of several processes, each learns the labels of some of the nodes.
    """

    unit = "labels"

    def __init__(self, graph: Graph, nodes: Numbers, labels: Numbers, *, share: Share = WHOLE) -> None:
        self.graph, self.nodes, self.labels = graph, nodes, labels
        self.whole = assembled(graph, nodes, labels)
        part = slice(share.rank, None, share.world)
        self.part = replace(self.whole, nodes=self.whole.nodes[part], wanted=self.whole.wanted[part])

    @property
    def checksum(self) -> str:
        return self.graph.checksum()

    def describe(self) -> list[str]:
        return described(self.graph, self.nodes)

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[GraphBatch]:
        if position == 0:
            yield replace(self.part, epoch=epoch)

    def in_order(self) -> Iterator[GraphBatch]:
        yield self.whole


class NeighbourStream(Stream[GraphBatch]):
    """Batches of `size` nodes, each with neighbours that are drawn anew in each epoch: `neighbours` of each node in
    question, of these, and so on. For validation all neighbours within `hops` edges are read."""

    unit = "labels"

    def __init__(
        self,
        graph: Graph,
        nodes: Numbers,
        labels: Numbers,
        *,
        size: int,
        neighbours: Sequence[int],
        seed: int,
        share: Share = WHOLE,
    ) -> None:
        self.graph, self.nodes, self.labels = graph, nodes, labels
        self.size, self.neighbours, self.seed, self.share = size, tuple(neighbours), seed, share

    @property
    def checksum(self) -> str:
        return self.graph.checksum()

    def describe(self) -> list[str]:
        return described(self.graph, self.nodes)

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[GraphBatch]:
        order = numpy.random.default_rng([self.seed, epoch]).permutation(len(self.nodes))
        batches = [order[begin : begin + self.size] for begin in range(0, len(order), self.size)]
        for place, chosen, idle in self.share.groups(batches, position):
            generator = numpy.random.default_rng([self.seed, epoch, place, self.share.rank])
            part, _ = neighbourhood(self.graph, self.nodes[chosen], self.neighbours, generator)
            batch = assembled(part, numpy.arange(len(chosen)), self.labels[chosen])
            yield replace(batch, epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[GraphBatch]:
        return around(self.graph, self.nodes, self.labels, hops=len(self.neighbours), size=self.size)


def around(graph: Graph, nodes: Numbers, labels: Numbers, *, hops: int, size: int) -> Iterator[GraphBatch]:
    """Batches of `size` nodes with everything within `hops` edges, in order."""
    for begin in range(0, len(nodes), size):
        chosen = nodes[begin : begin + size]
        part, _ = neighbourhood(graph, chosen, [None] * hops)
        yield assembled(part, numpy.arange(len(chosen)), labels[begin : begin + size])


def described(graph: Graph, nodes: Numbers) -> list[str]:
    """What there is, for people."""
    return [f"{len(nodes):,} of {graph.nodes:,} nodes, {len(graph.keys):,} edges, {graph.width:,} features"]
