"""The input is a node of a graph, the output is its label.

loss    −log P(label | node, graph)        scores   accuracy and macro F1

The nodes that are learned from, validated and tested on are usually nodes of one graph, which is read as a whole. A
model can also be scored on another graph with the same features: `regard evaluate MODEL --data other.npz`.

N nodes  F features  C labels
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy
import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.recorder import recording
from regard.data.graphs.batches import GraphBatch, GraphStream, NeighbourStream, around, assembled
from regard.data.graphs.files import Reading, read_graph
from regard.data.graphs.graph import UNKNOWN, Graph, Numbers, neighbourhood
from regard.data.splits import DataTable, Splits, hold_out
from regard.data.streams import Stream
from regard.decoding.protocol import evaluation
from regard.errors import RegardError, listed, shown
from regard.models import from_config
from regard.models.facts import ModelConfig
from regard.tasks.base import (
    Codec,
    Exam,
    Looking,
    Objective,
    RunOptions,
    Score,
    Setting,
    Side,
    Sight,
    Task,
    Work,
)
from regard.tasks.modules import ReadsGraphs
from regard.tasks.parts import counted, shares
from regard.tasks.surfaces import Label, LabelsOut, ranked
from regard.tasks.together import spread

TOGETHER = 4096  # nodes that are answered together, each with its neighbourhood, where the graph is not read whole
SHOWN = 60  # nodes of the neighbourhood that `look` shows


class NodesData(DataTable):
    """[data] of nodes."""

    train: str | None = Field(None, description="the graph: an .npz file, or an edge list with data.nodes")
    valid: str | None = Field(None, description="another graph to validate on; without it, nodes of train")
    test: str | None = Field(None, description="another graph to test on; without it, nodes of train")
    nodes: str | None = Field(None, description="the table of nodes, where the graph is an edge list")
    directed: bool = Field(False, description="whether only the target of an edge looks at its source")
    self_loops: bool = Field(True, description="whether every node looks at itself too")
    normalise: bool = Field(True, description="divide the features of a node by the sum of their absolute values")
    neighbours: list[PositiveInt] | None = Field(
        None, description="neighbours drawn of each node, then of each of these, …; without it, the graph is one batch"
    )
    hold_out: PositiveInt | float | None = Field(
        None, description="nodes held out for validation if there is no split: a number or a share; 2 % if not given"
    )
    best: Literal["accuracy", "loss", "both"] = Field(
        "accuracy", description="the validation score that ranks checkpoints; both: neither was better before"
    )

    def reading(self) -> Reading:
        return Reading(self.nodes, directed=self.directed, self_loops=self.self_loops, normalise=self.normalise)


@dataclass(frozen=True)
class Nodes:
    """Some nodes of a graph, whose labels are known."""

    graph: Graph
    chosen: Numbers


class NodeLabels(LabelsOut[str]):
    """The input is the id of a node; the output is every label with its probability, the most probable first."""

    pipeline = "graph-ml"
    example = "17"

    def parse(self, line: str) -> str:
        return line.strip()

    def from_json(self, body: object) -> str:
        found = body.get("node") if isinstance(body, Mapping) else body
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise RegardError(f'give the id of a node, or {{"node": …}}, and not {shown(body)}')
        return str(found).strip()


class ClassifyNodes(Task[NodesData, Nodes, str, list[Label], GraphBatch]):
    """The task. `size` is the number of features that the model reads."""

    forms = ("graphs",)
    honours = frozenset({"training.batch_size", "training.label_smoothing"})
    data = NodesData
    surface = NodeLabels()

    def __init__(
        self, labels: Sequence[str], *, size: int, data: NodesData, together: int = TOGETHER, smoothing: float = 0.0
    ) -> None:
        self.labels, self.size, self.table = tuple(labels), size, data
        self.together, self.smoothing = together, smoothing

    @classmethod
    def from_setting(cls, setting: Setting[NodesData], codec: Codec) -> Self:
        size = codec.numbers.get("features")
        if not isinstance(size, int):
            raise RegardError("numbers.json says nothing of the features of nodes; copy the model directory again")
        return cls(codec.labels, size=size, data=setting.data, smoothing=setting.label_smoothing)

    # what there is to learn from

    @classmethod
    def read(cls, entry: object, data: NodesData, *, key: str) -> Nodes:
        """A graph with its test nodes, or if it has no split, with all nodes whose label is known."""
        if not isinstance(entry, str) or not entry:
            raise RegardError(f"{key} is missing; name a graph, such as --set {key}=graph.npz")
        graph = read_graph(entry, data.reading())
        chosen = graph.parts.get("test", graph.labelled())
        if not len(chosen):
            raise RegardError(f"{key} = {entry!r} has no node with a label; name another graph")
        return Nodes(graph, chosen)

    @classmethod
    def open(cls, setting: Setting[NodesData], work: Work | None) -> Splits[Nodes]:
        data = setting.data
        graph = cls.read(data.train, data, key="data.train").graph
        parts = dict(graph.parts)
        if "train" not in parts:
            judged = numpy.concatenate([parts.get(part, numpy.empty(0, int)) for part in ("valid", "test")])
            parts["train"] = numpy.setdiff1d(graph.labelled(), judged)
        if not data.valid and "valid" not in parts:
            ids = [graph.id_of(node) for node in parts["train"].tolist()]
            apart = hold_out(ids, amount=data.hold_out, seed=setting.seed)
            held = numpy.array([each in apart for each in ids])
            parts["train"], parts["valid"] = parts["train"][~held], parts["train"][held]
        for part in ("train", "valid"):
            if part in parts and not len(parts[part]):
                raise RegardError(f"data.train = {data.train!r} has no node in its split {part!r}; give it some")
        valid = cls.read(data.valid, data, key="data.valid") if data.valid else Nodes(graph, parts["valid"])
        test = Nodes(graph, parts["test"]) if len(parts.get("test", ())) else None
        test = cls.read(data.test, data, key="data.test") if data.test else test
        return Splits(Nodes(graph, parts["train"]), valid, test)

    @classmethod
    def lines(cls, examples: Nodes) -> Iterator[str]:
        return (examples.graph.id_of(node) for node in examples.chosen.tolist())

    @classmethod
    def learn(cls, setting: Setting[NodesData], train: Nodes, body: Codec | None) -> Codec:
        graph = train.graph
        there = numpy.unique(graph.labels[train.chosen])
        if len(there) < 2:
            raise RegardError("all training nodes have the same label; a classifier needs two or more")
        return Codec(labels=graph.classes, numbers={"features": graph.width})

    # learning

    def module(self, model: ModelConfig) -> nn.Module:
        module, drawn = from_config(model, features=self.size, outputs=len(self.labels)), self.table.neighbours
        if drawn is not None and len(drawn) != _reader(module).hops:
            raise RegardError(
                f"data.neighbours = {drawn} must have one number for each layer of the model, which has "
                f"{_reader(module).hops}: nodes that many edges away count"
            )
        return module

    def batches(self, examples: Nodes, setting: Setting[NodesData], work: Work, *, name: str) -> Stream[GraphBatch]:
        labels = self.numbers(examples)
        if setting.data.neighbours is None:
            return GraphStream(examples.graph, examples.chosen, labels, share=work.share)
        return NeighbourStream(
            examples.graph,
            examples.chosen,
            labels,
            size=setting.batch_size,
            neighbours=setting.data.neighbours,
            seed=setting.seed,
            share=work.share,
        )

    def numbers(self, examples: Nodes) -> Numbers:
        """The labels of the nodes as numbers of the model's labels."""
        graph = examples.graph
        self._require_features(graph)
        known = {label: number for number, label in enumerate(self.labels)}
        there = numpy.unique(graph.labels[examples.chosen])
        for number in there.tolist():
            if graph.classes[number] not in known:
                node = int(examples.chosen[graph.labels[examples.chosen] == number][0])
                raise RegardError(
                    f"{graph.name}: node {graph.id_of(node)} has the label {graph.classes[number]!r}, which the model "
                    f"has not learned; it knows {listed(self.labels)}"
                )
        table = numpy.array([known.get(label, UNKNOWN) for label in graph.classes], dtype=numpy.int64)
        return table[graph.labels[examples.chosen]]

    def loss(self, model: nn.Module, batch: GraphBatch, *, plain: bool = False) -> Tensor:
        """The cross-entropy, summed over the nodes in question."""
        logits = model(batch.features, batch.cells).index_select(0, batch.nodes)  # (T, C)
        smoothing = 0.0 if plain else self.smoothing
        return F.cross_entropy(logits, batch.wanted, label_smoothing=smoothing, reduction="sum")

    # judging

    def objective(self, splits: Splits[Nodes]) -> Objective:
        if self.table.best == "loss":
            return Objective()
        return Objective("accuracy", higher=True, with_loss=self.table.best == "both")

    def quick_exam(self, valid: Nodes, batches: Stream[GraphBatch]) -> Exam:
        """Loss and scores from one reading of the graph."""
        return Exam(f"{len(valid.chosen):,} nodes", lambda model: self._scores(model, batches.in_order()), loss=True)

    def exam(self, examples: Nodes, options: RunOptions, *, tokenize: str = "13a") -> Exam:
        labels = self.numbers(examples)

        def scores(model: nn.Module) -> dict[str, Score]:
            found = self._scores(model, self._readings(model, examples.graph, examples.chosen, labels))
            return {name: score for name, score in found.items() if name != "loss"}

        return Exam(f"{len(examples.chosen):,} nodes", scores)

    def _scores(self, model: nn.Module, batches: Iterator[GraphBatch]) -> dict[str, Score]:
        device, size = next(model.parameters()).device, len(self.labels)

        def judged(batch: GraphBatch) -> list[tuple[float, list[int]]]:
            """The loss of a batch, and which label was taken for which: a number for each node."""
            there = batch.to(device)
            with torch.no_grad():
                logits = model(there.features, there.cells).index_select(0, there.nodes)
            pairs = there.wanted * size + logits.argmax(-1)
            loss = float(F.cross_entropy(logits, there.wanted, reduction="sum"))
            return [(loss, pairs.tolist())]

        found = spread(batches, judged)
        total = sum(loss for loss, _ in found)
        every = torch.tensor([pair for _, taken in found for pair in taken])
        wanted, said = (F.one_hot(each, size) for each in (every // size, every % size))  # (N, labels)
        counts = torch.bincount(every, minlength=size * size).view(size, size)
        nodes, right = int(counts.sum()), counts.diagonal()
        f1 = 2 * right / (counts.sum(0) + counts.sum(1)).clamp(min=1)
        each = counted(torch.stack([2 * wanted * said, wanted + said], 2).flatten(1).tolist(), form="macro")
        return {
            "loss": Score(total / nodes),
            "accuracy": Score(
                100 * int(right.sum()) / nodes, f"percent of {nodes} nodes", shares((wanted * said).sum(1))
            ),
            "macro_f1": Score(100 * float(f1.mean()), "mean F1 of the labels, in percent", each),
        }

    def _readings(self, model: nn.Module, graph: Graph, nodes: Numbers, labels: Numbers) -> Iterator[GraphBatch]:
        """Batches with all that the labels of these nodes depend on."""
        if self.table.neighbours is None:
            return iter([assembled(graph, nodes, labels)])
        return around(graph, nodes, labels, hops=_reader(model).hops, size=self.together)

    # answering and looking

    @cached_property
    def graph(self) -> Graph:
        """The graph that the model was trained on, read again."""
        name = self.table.train
        if not name:
            raise RegardError("the recipe names no graph in data.train, and nodes are asked by their ids in it")
        try:
            graph = read_graph(name, self.table.reading())
        except RegardError as error:
            raise RegardError(
                f"the nodes are those of data.train, which is read again: {error}; put it back, or name it with "
                "--set data.train=…"
            ) from None
        self._require_features(graph)
        return graph

    def _require_features(self, graph: Graph) -> None:
        if graph.width != self.size:
            raise RegardError(
                f"{graph.name} has {graph.width:,} features, and the model was trained on {self.size:,}; "
                "give a graph with the same features"
            )

    def answer(self, model: nn.Module, asked: Sequence[str], options: RunOptions) -> list[list[Label]]:
        nodes = numpy.array([self._number(each) for each in asked], dtype=numpy.int64)
        different, places = numpy.unique(nodes, return_inverse=True)
        device, shares = next(model.parameters()).device, list[list[float]]()
        with evaluation(model):
            for batch in self._readings(model, self.graph, different, numpy.zeros_like(different)):
                there = batch.to(device)
                logits = model(there.features, there.cells).index_select(0, there.nodes)
                shares += logits.float().softmax(-1).tolist()
        return [ranked(self.labels, shares[place]) for place in places.tolist()]

    def _number(self, asked: str) -> int:
        number = self.graph.number_of.get(asked)
        if number is None:
            graph = self.graph
            ids = f"{graph.id_of(0)} to {graph.id_of(graph.nodes - 1)}"
            raise RegardError(f"{graph.name} has no node {shown(asked)}; its {graph.nodes:,} nodes are {ids}")
        return number

    def sight(self, model: nn.Module, asked: str, look: Looking) -> Sight:
        """The neighbourhood of a node: the node first, then those that it looks at most, by way of its neighbours."""
        device, reader = next(model.parameters()).device, _reader(model)
        part, _ = neighbourhood(self.graph, numpy.array([self._number(asked)]), [None] * reader.hops)
        batch = assembled(part, numpy.zeros(1, dtype=numpy.int64), numpy.zeros(1, dtype=numpy.int64)).to(device)

        def logits(_places: Tensor | None = None) -> Tensor:
            return model(batch.features, batch.cells)[:1]  # (1, C)

        with evaluation(model), recording(model) as seen:
            logits()
        weights = [torch.sparse.sum(each[0], 0) / each.shape[1] for path in seen for each in seen.calls(path)]
        shown_nodes = strongest([_edges(each) for each in reversed(weights)], most=SHOWN)
        ids = [part.id_of(node) for node in shown_nodes]
        chosen = None
        if look.reference is not None:
            if look.reference not in self.labels:
                raise RegardError(f"reference={look.reference!r} is no label; there are {listed(self.labels)}")
            chosen = [self.labels.index(look.reference)]
        cut = len(shown_nodes) < part.nodes
        note = f"{len(shown_nodes)} of the {part.nodes:,} nodes within {reader.hops} edges are shown: the strongest."
        return Sight(
            title=f"node {asked}",
            source=Side(
                tuple(ids),
                kind="nodes",
                text=f"node {asked}",
                edges=_among(part, shown_nodes),
                labels=tuple(part.label(node) for node in shown_nodes),
            ),
            logits=logits,
            given=(batch.nodes.unsqueeze(0),),
            read=lambda *_given: logits().unsqueeze(0),
            sides=reader.looks,
            embedding=reader.embedding,
            outcome=lambda picked: (Side((said := self.labels[picked[0]],), text=said), said),
            names=lambda _at, numbers: [self.labels[number] for number in numbers],
            chosen=chosen,
            places=(0,),
            layer_paths="layers.{}".format,
            notes=(note,) if cut else (),
            shown=tuple(shown_nodes),
        )


def strongest(layers: Sequence[Mapping[int, Sequence[tuple[int, float]]]], *, most: int) -> list[int]:
    """Node 0 and the nodes that it looks at most: a node is as strong as the strongest way to it, which is a product of
    weights, one of each layer from the last to the first.

    `layers` has, for each layer, the neighbours of each node with their weights.
    """
    found: dict[int, float] = {}
    waiting = [(-1.0, 0, 0)]
    while waiting and len(found) < most:
        strength, depth, node = heapq.heappop(waiting)
        if node not in found:
            found[node] = -strength
        if depth < len(layers):
            for other, weight in layers[depth].get(node, ()):
                heapq.heappush(waiting, (strength * weight, depth + 1, other))
    return list(found)


def _edges(weights: Tensor) -> dict[int, list[tuple[int, float]]]:
    """Weights (N, N), sparse, as the neighbours of each node with their weights."""
    found: dict[int, list[tuple[int, float]]] = {}
    whole = weights.coalesce()
    for (query, key), weight in zip(whole.indices().T.tolist(), whole.values().tolist(), strict=True):
        found.setdefault(query, []).append((key, weight))
    return found


def _among(graph: Graph, nodes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The edges between these nodes, by their places, without those from a node to itself; each direction once."""
    place = {node: at for at, node in enumerate(nodes)}
    pairs = zip(graph.rows.tolist(), graph.keys.tolist(), strict=True)
    inside = {(place[a], place[b]) for a, b in pairs if a != b and a in place and b in place}
    return tuple(sorted({(min(pair), max(pair)) for pair in inside}))


def _reader(model: nn.Module) -> ReadsGraphs:
    assert isinstance(model, ReadsGraphs)
    return model
