"""A graph and the weights on its edges, with places for its nodes.   n nodes"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from regard.look.record import Map, Record

ROUNDS = 150
MOST_MOVED = 400  # with more nodes, they stay on a circle
MOST_EDGES = 4000  # of a side that names no edges

Edge = tuple[int, int]


@dataclass(frozen=True)
class Neighbours:
    """The nodes of a record's main map."""

    names: tuple[str, ...]
    labels: tuple[str, ...]  # a class for each node, empty for a node without one, or no labels at all
    edges: tuple[Edge, ...]
    weights: Tensor  # (n, n), mean of heads; row i is what node i looks at
    subject: int | None  # the node that the answer is about

    @classmethod
    def of(cls, record: Record, chosen: Map) -> Neighbours:
        side, weights = record.sides[chosen.key], chosen.weights.mean(0)
        places = record.answer.places if record.answer is not None and chosen.key == "source" else ()
        given = _strongest_pairs(weights) if side.edges is None else side.edges
        edges = tuple((one, other) for one, other in given if one != other and max(one, other) < len(weights))
        subject = places[0] if places and places[0] < len(weights) else None
        return cls(side.items, side.labels or (), edges, weights, subject)

    @property
    def classes(self) -> list[str]:
        """The classes in order, each once."""
        return sorted({label for label in self.labels if label})

    def weight(self, edge: Edge) -> float:
        """The larger weight of both directions."""
        return max(float(self.weights[edge]), float(self.weights[edge[::-1]]))

    def looked_at(self, node: int) -> list[tuple[int, float]]:
        """The nodes that one looks at with their weights, the largest first."""
        row = self.weights[node]
        order = row.argsort(descending=True, stable=True).tolist()
        return [(other, float(row[other])) for other in order if row[other] > 0]

    def label(self, node: int) -> str:
        """The class of a node, or nothing."""
        return self.labels[node] if self.labels else ""

    def places(self) -> NDArray[numpy.float64]:
        """Places in the square from 0 to 1 (n, 2): edges pull and nodes push, from a circle on, with less and less
        force (Fruchterman & Reingold 1991)."""
        count = len(self.weights)
        angle = 2 * numpy.pi * numpy.arange(count) / max(count, 1)
        found = 0.5 + 0.4 * numpy.stack([numpy.cos(angle), numpy.sin(angle)], 1)
        ideal = numpy.sqrt(1 / max(count, 1))
        ends = numpy.array(self.edges, dtype=int).reshape(-1, 2)
        for round_ in range(ROUNDS if count <= MOST_MOVED else 0):
            apart = found[:, None] - found  # (n, n, 2)
            distance = numpy.maximum(numpy.linalg.norm(apart, axis=-1), 1e-4)
            moved = (apart * (ideal / distance[..., None]) ** 2).sum(1)
            along = found[ends[:, 0]] - found[ends[:, 1]]
            pulled = along * (numpy.linalg.norm(along, axis=-1, keepdims=True) / ideal)
            numpy.add.at(moved, ends[:, 0], -pulled)
            numpy.add.at(moved, ends[:, 1], pulled)
            length = numpy.maximum(numpy.linalg.norm(moved, axis=-1, keepdims=True), 1e-9)
            found += moved / length * numpy.minimum(length, 0.08 * (1 - round_ / ROUNDS))
        low, high = found.min(0, initial=1), found.max(0, initial=0)
        return (found - low) / numpy.maximum(high - low, 1e-9)


def is_graph(record: Record, each: Map) -> bool:
    """Whether a map looks from the nodes of a graph at themselves."""
    return each.query == each.key and each.key in record.sides and record.sides[each.key].kind == "nodes"


def _strongest_pairs(weights: Tensor) -> list[Edge]:
    both = weights.maximum(weights.T).tril(-1)
    order = both.flatten().argsort(descending=True, stable=True)[:MOST_EDGES].tolist()
    pairs = [divmod(number, len(weights)) for number in order]
    return [pair for pair in pairs if both[pair] > 0]
