"""Graphs from files: .npz, or an edge list with a table of nodes. Ids that are wrong are named with file and row.

.npz         num_nodes · edges (E, 2) · labels (N,), −1 if unknown · features (N, F), or as compressed rows feat_indptr,
             feat_indices, feat_data, feat_shape · train_idx, val_idx, test_idx if there is a split
edge list    .csv, .tsv or .parquet with two columns: source and target, or the first two
nodes        .csv, .tsv or .parquet with a header: id, label, split (train, valid or test) and a number for each feature
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from regard.data.files import opened
from regard.data.graphs.graph import UNKNOWN, Features, Graph, Numbers, Rows, connected
from regard.data.made.lookup import is_drawn, lookups
from regard.data.packing import without_packing
from regard.errors import RegardError, cut, listed, shown

SPLITS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}
COMPRESSED = ("feat_indptr", "feat_indices", "feat_data", "feat_shape")
ENDS = (("source", "target"), ("from", "to"), ("src", "dst"))  # names of the columns of an edge list
LARGEST = 1 << 31  # nodes


@dataclass(frozen=True)
class Reading:
    """How the edges and features of a file are meant."""

    nodes: str | None = None  # the table of nodes, if the file is an edge list
    directed: bool = False
    self_loops: bool = True
    normalise: bool = True


def read_graph(name: str, how: Reading) -> Graph:
    """The graph of a file."""
    if is_drawn(name):
        return _assembled(name, _Found(**lookups(name)), how)
    if name.lower().endswith(".npz"):
        return _assembled(name, _read_npz(name), how)
    if how.nodes is None:
        raise RegardError(
            f"{cut(name)} is read as an edge list, and data.nodes names no table of its nodes; give one with the "
            "columns id, label and features, or an .npz file"
        )
    return _assembled(name, _read_tables(name, how.nodes), how)


@dataclass(frozen=True)
class _Found:
    """What a file holds, with numbers for nodes and labels."""

    features: Features
    edges: Numbers  # (E, 2), source and target
    labels: Numbers
    classes: tuple[str, ...]
    parts: Mapping[str, Numbers]
    names: tuple[str, ...] = ()


def _assembled(name: str, found: _Found, how: Reading) -> Graph:
    features = found.features
    if how.normalise:
        features = features.normalised() if isinstance(features, Rows) else _normalised(features)
    starts, keys = connected(found.edges, len(found.labels), directed=how.directed, self_loops=how.self_loops)
    return Graph(name, features, starts, keys, found.labels, found.classes, found.names, dict(found.parts))


def _normalised(features: NDArray[numpy.float32]) -> NDArray[numpy.float32]:
    sums = numpy.abs(features).sum(1, keepdims=True)
    sums[sums == 0] = 1
    return (features / sums).astype(numpy.float32)


# .npz


def _read_npz(name: str) -> _Found:
    arrays = _arrays(name)
    count = _count(name, arrays)
    features = _features(name, arrays, count)
    edges = _whole(name, "edges", arrays)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise RegardError(f"{name}: edges has shape {edges.shape}; expected (edges, 2), a source and a target in a row")
    _require_nodes(f"{name}: edges", edges, count)
    labels, classes = _labels(name, arrays, count)
    parts = {SPLITS[key]: _part(name, f"{key}_idx", arrays, labels) for key in SPLITS if f"{key}_idx" in arrays}
    _require_apart(name, parts)
    return _Found(features, edges, labels, classes, parts)


def _arrays(name: str) -> dict[str, NDArray[Any]]:
    with opened(name) as file:
        try:
            archive = numpy.load(file)
            if isinstance(archive, numpy.ndarray):
                raise ValueError("it holds one array without a name; numpy.savez writes several")
            return {key: archive[key] for key in archive.files}
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError, AttributeError) as error:
            raise RegardError(f"{name} is not a sound .npz file ({cut(error)}); fetch or write it again") from None


def _count(name: str, arrays: Mapping[str, NDArray[Any]]) -> int:
    """The number of nodes, on which all arrays must agree."""
    for key in ("edges", "labels"):
        if key not in arrays:
            raise RegardError(f"{name} has no array {key!r}; it has {listed(arrays)}")
    sizes = {"labels": _length(name, "labels", arrays)}
    if "num_nodes" in arrays:
        if arrays["num_nodes"].size != 1:
            raise RegardError(f"{name}: num_nodes has shape {arrays['num_nodes'].shape}; expected one number")
        sizes["num_nodes"] = int(_whole(name, "num_nodes", arrays).item())
    if "features" in arrays:
        sizes["features"] = _length(name, "features", arrays)
    elif all(key in arrays for key in COMPRESSED):
        if any(arrays[key].ndim != 1 for key in COMPRESSED) or len(arrays["feat_shape"]) != 2:
            raise _not_compressed(name)
        sizes["feat_shape"] = int(_whole(name, "feat_shape", arrays)[0])
    else:
        raise RegardError(f"{name} has neither features nor {', '.join(COMPRESSED)}; it has {listed(arrays)}")
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{key} says {size:,}" for key, size in sizes.items())
        raise RegardError(f"{name}: the arrays differ in the number of nodes: {said}; write the file again")
    if not 0 < sizes["labels"] < LARGEST:
        raise RegardError(f"{name} has {sizes['labels']:,} nodes; expected one or more, and fewer than {LARGEST:,}")
    return sizes["labels"]


def _length(name: str, key: str, arrays: Mapping[str, NDArray[Any]]) -> int:
    if not arrays[key].ndim:
        raise RegardError(f"{name}: {key} is a single value; expected one for each node")
    return len(arrays[key])


def _not_compressed(name: str) -> RegardError:
    return RegardError(f"{name}: {', '.join(COMPRESSED)} are not the compressed rows of one matrix; write it again")


def _features(name: str, arrays: Mapping[str, NDArray[Any]], count: int) -> Features:
    if "features" in arrays:
        dense = _floats(name, "features", arrays)
        if dense.ndim != 2 or dense.shape[1] == 0:
            raise RegardError(f"{name}: features has shape {dense.shape}; expected (nodes, features)")
        _require_finite(f"{name}: features", dense)
        return dense
    starts, columns = _whole(name, "feat_indptr", arrays), _whole(name, "feat_indices", arrays)
    values, width = _floats(name, "feat_data", arrays), int(_whole(name, "feat_shape", arrays)[1])
    sound = len(starts) == count + 1 and starts[0] == 0 and starts[-1] == len(columns) == len(values)
    if not sound or (numpy.diff(starts) < 0).any() or width < 1:
        raise _not_compressed(name)
    if len(columns) and not 0 <= columns.min() <= columns.max() < width:
        bad = int(numpy.flatnonzero((columns < 0) | (columns >= width))[0])
        row = int(numpy.searchsorted(starts, bad, side="right")) - 1
        raise RegardError(f"{name}: feat_indices names the feature {columns[bad]} of node {row}; there are {width:,}")
    if not numpy.isfinite(values).all():
        row = int(numpy.searchsorted(starts, numpy.flatnonzero(~numpy.isfinite(values))[0], side="right")) - 1
        raise RegardError(f"{name}: feat_data is not a finite number for node {row}; fill it in, or leave it out")
    rows = numpy.repeat(numpy.arange(count), numpy.diff(starts))
    codes, places = numpy.unique(rows * width + columns, return_inverse=True)
    summed = numpy.bincount(places, weights=values, minlength=len(codes)).astype(numpy.float32)  # in order, each once
    rows, columns = numpy.divmod(codes, width)
    return Rows(numpy.searchsorted(rows, numpy.arange(count + 1)), columns, summed, width)


def _labels(name: str, arrays: Mapping[str, NDArray[Any]], count: int) -> tuple[Numbers, tuple[str, ...]]:
    labels = arrays["labels"]
    if labels.shape != (count,):
        raise RegardError(f"{name}: labels has shape {labels.shape}; expected one label for each of {count:,} nodes")
    if labels.dtype.kind == "U":
        return _numbered(labels)
    numbers = _whole(name, "labels", arrays)
    if len(numbers) and numbers.min() < UNKNOWN:
        row = int(numpy.flatnonzero(numbers < UNKNOWN)[0])
        raise RegardError(f"{name}: labels has {numbers[row]} for node {row}; give classes from 0, and −1 for unknown")
    if "classes" not in arrays:
        different = numpy.unique(numbers[numbers != UNKNOWN])
        places = numpy.where(numbers == UNKNOWN, UNKNOWN, numpy.searchsorted(different, numbers))
        return places, tuple(map(str, different.tolist()))
    classes = tuple(map(str, arrays["classes"].tolist()))
    if len(numbers) and numbers.max() >= len(classes):
        row = int(numbers.argmax())
        raise RegardError(f"{name}: labels has {numbers[row]} for node {row}, and classes has {len(classes)} names")
    return numbers, classes


def _part(name: str, key: str, arrays: Mapping[str, NDArray[Any]], labels: Numbers) -> Numbers:
    nodes = _whole(name, key, arrays).reshape(-1)
    _require_nodes(f"{name}: {key}", nodes[:, None], len(labels))
    if len(unknown := numpy.flatnonzero(labels[nodes] == UNKNOWN)):
        raise RegardError(f"{name}: {key} has node {nodes[unknown[0]]}, which has no label; leave it out")
    return numpy.unique(nodes)


def _whole(name: str, key: str, arrays: Mapping[str, NDArray[Any]]) -> Numbers:
    """An array of whole numbers; an empty one may have any type."""
    if arrays[key].dtype.kind not in "iu" and arrays[key].size:
        raise RegardError(f"{name}: {key} has {arrays[key].dtype}; whole numbers are expected")
    return arrays[key].astype(numpy.int64)


def _floats(name: str, key: str, arrays: Mapping[str, NDArray[Any]]) -> NDArray[numpy.float32]:
    if arrays[key].dtype.kind not in "iufb":
        raise RegardError(f"{name}: {key} has {arrays[key].dtype}; numbers are expected")
    with numpy.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        return arrays[key].astype(numpy.float32)


# tables


def _read_tables(name: str, nodes: str) -> _Found:
    table = _table(nodes, header=True)
    names = table.column_names
    if twice := [each for each in names if names.count(each) > 1]:
        raise RegardError(f"{nodes} has more than one column {shown(twice[0])}; give each a name of its own")
    columns = {word: each for each in names if (word := each.strip().lower()) in ("id", "label", "split")}
    if "id" not in columns or "label" not in columns:
        raise RegardError(f"{nodes} needs the columns id and label; it has {shown(names)}")
    ids = _texts(table, columns["id"])
    _require_ids(nodes, ids)
    labels, classes = _numbered(numpy.array(_texts(table, columns["label"]), dtype=str))
    features = [each for each in names if each not in columns.values()]
    if not features:
        raise RegardError(f"{nodes} has no column of features beside id, label and split; add one of numbers")
    values = numpy.stack([_column(nodes, table, each) for each in features], 1)
    parts = _split(nodes, _texts(table, columns["split"]), labels) if "split" in columns else {}
    return _Found(values, _edges(name, nodes, ids), labels, classes, parts, tuple(ids))


def _edges(name: str, nodes: str, ids: list[str]) -> Numbers:
    import pyarrow
    from pyarrow import compute

    table = _table(name, header=False)
    if table.num_columns < 2:
        raise RegardError(f"{name} has {table.num_columns} column; an edge list needs two, a source and a target")
    first = [str(column[0].as_py()).strip().lower() for column in table.columns] if table.num_rows else []
    named = [str(each).strip().lower() for each in table.column_names]
    places, skipped = (0, 1), 0
    for ends in ENDS:
        if all(end in named for end in ends):
            places = (named.index(ends[0]), named.index(ends[1]))
        elif all(end in first for end in ends):
            places, skipped = (first.index(ends[0]), first.index(ends[1])), 1
    known = pyarrow.array(ids)
    found = []
    for place in places:
        cells = table.column(place).cast(pyarrow.string()).slice(skipped)
        numbers = compute.index_in(compute.utf8_trim_whitespace(cells), value_set=known)
        if numbers.null_count:
            row = compute.index(numbers.is_null(), True).as_py()
            where = _row(name, row + skipped, first=1)
            raise RegardError(
                f"{where} names the node {shown(cells[row].as_py())}, which is not in {nodes}; "
                "add it there, leave the edge out, or call the columns of a header source and target"
            )
        found.append(numpy.asarray(numbers.to_numpy(), dtype=numpy.int64))
    return numpy.stack(found, 1)


def _table(name: str, *, header: bool) -> Any:
    """A table of pyarrow; every cell of a CSV or TSV is text."""
    from pyarrow import ArrowException, csv, parquet, string

    plain = without_packing(name)
    try:
        with opened(name) as file:
            if plain.endswith(".parquet"):
                return parquet.read_table(file)
            read = csv.ReadOptions(autogenerate_column_names=not header)
            split = csv.ParseOptions(delimiter="," if plain.endswith(".csv") else "\t")
            with csv.open_csv(file, read, split) as beginning:
                texts = dict.fromkeys(beginning.schema.names, string())  # 007 is an id, and not the number 7
        with opened(name) as file:
            return csv.read_csv(file, read, split, csv.ConvertOptions(column_types=texts))
    except (ArrowException, ValueError, OSError) as error:
        if isinstance(error, RegardError):
            raise
        raise RegardError(f"{name} is not a sound table ({cut(error)}); check its rows, or write it again") from None


def _row(name: str, row: int, *, first: int = 2) -> str:
    """A row, counted from 0, as people find it: by its line, where row 0 is on line `first`, or by its number in a
    Parquet file."""
    return f"{name}: row {row + 1}" if without_packing(name).endswith(".parquet") else f"{name}:{row + first}"


def _texts(table: Any, column: str) -> list[str]:
    return ["" if each is None else str(each).strip() for each in table.column(column).to_pylist()]


def _column(name: str, table: Any, column: str) -> NDArray[numpy.float32]:
    """A column of features; a cell that is not a finite number in single precision is named."""
    from pyarrow import ArrowException, float64

    cells = table.column(column)
    try:
        values = cells.cast(float64()).to_numpy()
    except (ArrowException, ValueError):
        values = numpy.array([_number(each) for each in cells.to_pylist()])
    with numpy.errstate(over="ignore"):
        values = values.astype(numpy.float32)
    if len(bad := numpy.flatnonzero(~numpy.isfinite(values))):
        told = shown(cells[int(bad[0])].as_py())
        raise RegardError(
            f"{_row(name, int(bad[0]))} has {told} in the column {column!r}; a feature is a finite number: fill it in, "
            "or leave the column out"
        )
    return values


def _number(cell: object) -> float:
    try:
        return float(str(cell))
    except ValueError:
        return numpy.nan


def _split(name: str, words: list[str], labels: Numbers) -> dict[str, Numbers]:
    parts: dict[str, list[int]] = {}
    for row, word in enumerate(words):
        if not word:
            continue
        if word.lower() not in SPLITS:
            raise RegardError(f"{_row(name, row)} has the split {shown(word)}; there are train, valid and test")
        if labels[row] == UNKNOWN:
            raise RegardError(f"{_row(name, row)} is in the split {word!r} and has no label; fill it in")
        parts.setdefault(SPLITS[word.lower()], []).append(row)
    return {part: numpy.array(nodes, dtype=numpy.int64) for part, nodes in parts.items()}


# checks


def _numbered(labels: NDArray[Any]) -> tuple[Numbers, tuple[str, ...]]:
    """Labels as numbers of their names, in order; an empty one is unknown."""
    classes, numbers = numpy.unique(labels, return_inverse=True)
    empty = int(len(classes) > 0 and classes[0] == "")
    return numbers.astype(numpy.int64) - empty, tuple(map(str, classes[empty:].tolist()))


def _require_nodes(where: str, numbers: Numbers, count: int) -> None:
    """Refuse numbers (R, …) of nodes that there are not."""
    wrong = numpy.flatnonzero(((numbers < 0) | (numbers >= count)).any(1))
    if len(wrong):
        row = numbers[wrong[0]].tolist()
        raise RegardError(f"{where}: row {wrong[0]} is {shown(row)}, and the {count:,} nodes are 0 to {count - 1:,}")


def _require_finite(where: str, values: NDArray[numpy.float32]) -> None:
    wrong = numpy.flatnonzero(~numpy.isfinite(values).all(1))
    if len(wrong):
        raise RegardError(f"{where} of node {wrong[0]} are not finite numbers; fill them in, or leave the node out")


def _require_apart(name: str, parts: Mapping[str, Numbers]) -> None:
    """Refuse a node that is both learned from and judged by."""
    for first, second in (("train", "valid"), ("train", "test"), ("valid", "test")):
        both = numpy.intersect1d(parts.get(first, []), parts.get(second, []))
        if len(both):
            raise RegardError(f"{name}: node {int(both[0])} is in {first} and in {second}; leave it out of one of them")


def _require_ids(name: str, ids: list[str]) -> None:
    seen: dict[str, int] = {}
    for row, each in enumerate(ids):
        if not each:
            raise RegardError(f"{_row(name, row)} has no id; fill it in, or leave the row out")
        if each in seen:
            raise RegardError(f"{_row(name, row)} has the id {shown(each)} of {_row(name, seen[each])}; rename one")
        seen[each] = row
    if not ids:
        raise RegardError(f"{name} has no nodes; give a table with one row for each")
