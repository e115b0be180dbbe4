"""Graphs from files, what is refused of them, and neighbourhoods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
import pytest

from regard.data.graphs.batches import GraphStream, NeighbourStream
from regard.data.graphs.files import Reading, read_graph
from regard.data.graphs.graph import Graph, Rows, connected, neighbourhood
from regard.data.made.lookup import lookups
from regard.errors import RegardError

DENSE = numpy.array([[1, 0, 3], [0, 0, 0], [0, 2, 0], [1, 1, 0]], dtype=numpy.float32)
PLAIN: dict[str, Any] = {
    "num_nodes": 4,
    "features": DENSE,
    "edges": numpy.array([[0, 1], [1, 0], [0, 1], [2, 2], [1, 2]]),  # twice, both ways, and a loop; 3 is alone
    "labels": numpy.array([0, 1, 0, -1]),
    "train_idx": numpy.array([0, 1]),
    "val_idx": numpy.array([2]),
}
COMPRESSED = {
    "feat_indptr": numpy.array([0, 2, 2, 3, 5]),
    "feat_indices": numpy.array([0, 2, 1, 0, 1]),
    "feat_data": numpy.array([1.0, 3.0, 2.0, 1.0, 1.0]),
    "feat_shape": numpy.array([4, 3]),
}


def write(path: Path, **changes: Any) -> str:
    arrays = {name: value for name, value in {**PLAIN, **changes}.items() if value is not None}
    numpy.savez(path / "g.npz", **arrays)
    return str(path / "g.npz")


def pairs(graph: Graph) -> set[tuple[int, int]]:
    return set(zip(graph.rows.tolist(), graph.keys.tolist(), strict=True))


def dense(features: Any) -> numpy.ndarray[Any, Any]:
    if not isinstance(features, Rows):
        return features
    found = numpy.zeros((len(features), features.width), dtype=numpy.float32)
    rows = numpy.repeat(numpy.arange(len(features)), numpy.diff(features.starts))
    found[rows, features.columns] = features.values
    return found


def test_dense_and_compressed_features_are_the_same(tmp_path: Path) -> None:
    plain = read_graph(write(tmp_path), Reading(normalise=False))
    rows = read_graph(write(tmp_path, features=None, **COMPRESSED), Reading(normalise=False))
    assert isinstance(rows.features, Rows)
    assert dense(plain.features).tolist() == dense(rows.features).tolist() == DENSE.tolist()
    for name in (write(tmp_path), write(tmp_path, features=None, **COMPRESSED)):
        sums = dense(read_graph(name, Reading()).features).sum(1)
        assert sums.tolist() == [1, 0, 1, 1]
    assert plain.classes == ("0", "1")
    assert {part: nodes.tolist() for part, nodes in plain.parts.items()} == {"train": [0, 1], "valid": [2]}


def test_edges_count_once_whatever_is_written(tmp_path: Path) -> None:
    name = write(tmp_path)
    loops = {(node, node) for node in range(4)}
    both = {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert pairs(read_graph(name, Reading())) == both | loops
    assert pairs(read_graph(name, Reading(self_loops=False))) == both | {(2, 2)}
    assert pairs(read_graph(name, Reading(directed=True, self_loops=False))) == {(0, 1), (1, 0), (2, 1), (2, 2)}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"edges": numpy.array([[0, 1], [3, 4]])}, "edges: row 1 is [3, 4], and the 4 nodes are 0 to 3"),
        ({"edges": numpy.array([0, 1])}, "edges has shape (2,); expected (edges, 2)"),
        ({"edges": numpy.array([[0.5, 1]])}, "edges has float64; whole numbers are expected"),
        ({"edges": None}, "has no array 'edges'"),
        ({"features": None}, "has neither features nor feat_indptr"),
        ({"features": numpy.where(DENSE == 2, numpy.nan, DENSE)}, "features of node 2 are not finite numbers"),
        (
            {"features": numpy.where(DENSE == 2, 1e300, DENSE.astype(float))},
            "features of node 2 are not finite numbers",
        ),
        ({"labels": numpy.array(0)}, "labels is a single value; expected one for each node"),
        ({"num_nodes": numpy.array([], dtype=int)}, "num_nodes has shape (0,); expected one number"),
        ({"features": None, **COMPRESSED, "feat_shape": numpy.array([4])}, "not the compressed rows"),
        ({"features": None, **COMPRESSED, "feat_data": numpy.array(1.0)}, "not the compressed rows"),
        ({"labels": numpy.array([0, 1])}, "the arrays differ in the number of nodes"),
        ({"labels": numpy.array([0, -3, 0, 1])}, "labels has -3 for node 1"),
        ({"train_idx": numpy.array([0, 9])}, "train_idx: row 1 is [9]"),
        ({"train_idx": numpy.array([3])}, "train_idx has node 3, which has no label"),
        ({"test_idx": numpy.array([1])}, "node 1 is in train and in test"),
        ({"features": None, **COMPRESSED, "feat_indices": numpy.array([0, 2, 7, 0, 1])}, "the feature 7 of node 2"),
        ({"features": None, **COMPRESSED, "feat_indptr": numpy.array([0, 2, 1, 3, 5])}, "not the compressed rows"),
    ],
)
def test_arrays_that_cannot_be_right_are_named(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RegardError) as error:
        read_graph(write(tmp_path, **changes), Reading())
    assert sentence in str(error.value)


def test_an_array_without_a_name_is_no_graph(tmp_path: Path) -> None:
    with (tmp_path / "g.npz").open("wb") as file:
        numpy.save(file, DENSE)
    with pytest.raises(RegardError, match=r"g\.npz is not a sound \.npz file \(it holds one array without a name"):
        read_graph(str(tmp_path / "g.npz"), Reading())


def test_a_graph_may_have_no_edges(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path, edges=numpy.zeros((0, 2))), Reading())
    assert pairs(graph) == {(node, node) for node in range(4)}


NODES = "id,label,split,a,b\nann,x,train,1,0\nbob,y,train,0,2\ncid,x,valid,1,1\ndan,,,3,4\n"


@pytest.mark.parametrize("edges", ["ann,bob\nbob,cid\n", "source,target\nann,bob\nbob,cid\n"])
@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_tables_of_nodes_and_edges(tmp_path: Path, edges: str, form: str) -> None:
    if form == "parquet":
        columns = [line.split(",") for line in edges.split()]
        named = ["from", "to"] if columns[0] != ["source", "target"] else columns.pop(0)
        table = pyarrow.table({name: [row[at] for row in columns] for at, name in enumerate(named)})
        pyarrow.parquet.write_table(table, tmp_path / "e.parquet")
        (tmp_path / "n.csv").write_text(NODES)
    else:
        mark = "," if form == "csv" else "\t"
        (tmp_path / f"e.{form}").write_text(edges.replace(",", mark))
        (tmp_path / f"n.{form}").write_text(NODES.replace(",", mark))
    nodes = "n.csv" if form == "parquet" else f"n.{form}"
    how = Reading(str(tmp_path / nodes), self_loops=False, normalise=False)
    graph = read_graph(str(tmp_path / f"e.{form}"), how)
    assert pairs(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert (graph.names, graph.classes, graph.labels.tolist()) == (
        ("ann", "bob", "cid", "dan"),
        ("x", "y"),
        [0, 1, 0, -1],
    )
    assert dense(graph.features).tolist() == [[1, 0], [0, 2], [1, 1], [3, 4]]


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        (NODES, "ann,bob\nann,eve\n", "e.csv:2 names the node 'eve', which"),
        (NODES.replace("0,2", "0,many"), "ann,bob\n", "n.csv:3 has 'many' in the column 'b'"),
        (NODES.replace("0,2", "0,nan"), "ann,bob\n", "n.csv:3 has 'nan' in the column 'b'"),
        (NODES.replace("0,2", "0,1e39"), "ann,bob\n", "n.csv:3 has '1e39' in the column 'b'"),
        (NODES.replace("a,b", "a,a"), "ann,bob\n", "n.csv has more than one column 'a'"),
        (NODES.replace("0,2", "0,"), "ann,bob\n", "n.csv:3 has '' in the column 'b'"),
        (NODES.replace("bob", "ann"), "ann,ann\n", "n.csv:3 has the id 'ann' of "),
        (NODES.replace("bob", ""), "ann,ann\n", "n.csv:3 has no id"),
        (NODES.replace("valid", "later"), "ann,bob\n", "n.csv:4 has the split 'later'"),
        (NODES.replace("bob,y", "bob,"), "ann,bob\n", "n.csv:3 is in the split 'train' and has no label"),
        ("id,label\nann,x\n", "ann,ann\n", "n.csv has no column of features"),
        ("name,label,a\nann,x,1\n", "ann,ann\n", "n.csv needs the columns id and label"),
    ],
)
def test_rows_that_cannot_be_right_are_named(tmp_path: Path, nodes: str, edges: str, sentence: str) -> None:
    (tmp_path / "n.csv").write_text(nodes)
    (tmp_path / "e.csv").write_text(edges)
    with pytest.raises(RegardError) as error:
        read_graph(str(tmp_path / "e.csv"), Reading(str(tmp_path / "n.csv")))
    assert sentence in str(error.value)


def test_features_may_differ_in_small_and_large_letters_alone(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(NODES.replace("a,b", "a,A"))
    (tmp_path / "e.csv").write_text("ann,bob\n")
    graph = read_graph(str(tmp_path / "e.csv"), Reading(str(tmp_path / "n.csv"), normalise=False))
    assert dense(graph.features).tolist() == [[1, 0], [0, 2], [1, 1], [3, 4]]


def drawn(nodes: int = 60, edges: int = 200) -> Graph:
    random = numpy.random.default_rng(0)
    starts, keys = connected(random.integers(0, nodes, (edges, 2)), nodes)
    labels = random.integers(0, 3, nodes)
    return Graph("g", random.random((nodes, 4), dtype=numpy.float32), starts, keys, labels, ("a", "b", "c"))


def test_a_whole_neighbourhood_is_what_is_within_so_many_edges() -> None:
    graph = drawn()
    part, nodes = neighbourhood(graph, numpy.array([7]), [None, None])

    def seen(some: set[int]) -> set[int]:
        return {key for query, key in pairs(graph) if query in some}

    inner = seen({7})
    assert set(nodes.tolist()) == inner | seen(inner)
    back = {(int(nodes[query]), int(nodes[key])) for query, key in pairs(part)}
    assert back == {pair for pair in pairs(graph) if pair[0] in inner or (pair[0] == pair[1] and pair[0] in set(nodes))}


def test_drawn_neighbours_are_edges_of_the_graph_and_at_most_as_many() -> None:
    graph = drawn()
    some = numpy.array([3, 50, 9])
    part, nodes = neighbourhood(graph, some, [2, 1], numpy.random.default_rng(1))
    assert nodes[:3].tolist() == some.tolist()
    back = [(int(nodes[query]), int(nodes[key])) for query, key in pairs(part)]
    assert set(back) <= pairs(graph)
    for node in nodes.tolist():
        others = [key for query, key in back if query == node and key != node]
        assert (node, node) in back
        assert len(others) <= (2 if node in some else 1)


def test_batches_depend_on_seed_epoch_and_position_alone() -> None:
    graph = drawn()
    stream = NeighbourStream(graph, graph.labelled(), graph.labels, size=16, neighbours=[3, 2], seed=5)
    whole = list(stream.epoch(2))
    assert [batch.targets for batch in whole] == [16, 16, 16, 12]
    (later,) = stream.epoch(2, position=3)
    assert later.cells.columns.tolist() == whole[3].cells.columns.tolist()
    assert later.wanted.tolist() == whole[3].wanted.tolist()
    assert next(stream.epoch(3)).wanted.tolist() != whole[0].wanted.tolist()
    full = GraphStream(graph, graph.labelled(), graph.labels)
    assert [batch.targets for batch in full.epoch(0)] == [60]
    assert list(full.epoch(0, position=1)) == []


def test_a_drawn_graph_has_the_answer_among_the_neighbours() -> None:
    found = lookups("graph:lookup?keys=4&groups=9&noise=1")
    names = numpy.array(found["names"])
    for node in numpy.concatenate(list(found["parts"].values())).tolist():
        group, key = names[node].removesuffix("?").split(":")
        seen = names[found["edges"][found["edges"][:, 1] == node, 0]].tolist()
        assert len(seen) == 5
        assert f"{group}:{key}={found['labels'][node]}" in seen
    assert sum(map(len, found["parts"].values())) == 36
    with pytest.raises(RegardError, match="is not a graph that is drawn here"):
        lookups("graph:other")
