"""GAT on Cora and Citeseer by the paper's protocol, DictionaryLookup, and an epoch beside PyTorch Geometric's.

    python -m bench nodes --data FOLDER [--seeds 20] [--only cora] [--keys 10]

FOLDER has cora.npz and citeseer.npz. The recipes of the same names are trained with the seeds 1 to N, and the mean of
the test accuracy is printed with the standard deviation over the seeds and the standard error of the mean. The score is
that of the last epoch at which neither accuracy nor loss of validation was better before; training ends after 100
epochs in a row at which both were, as in the code of the paper.

An epoch is one update on the whole graph and one validation. Both systems have the same graph, sizes, dropout and
optimiser, and are measured in turn, in one process with as many threads; the figure is the median.

DictionaryLookup (Brody 2022) asks each node for the value of the neighbour with its own key. With one head, all askers
of a group prefer the same neighbour in a layer of GAT, and each may have its own in one of GATv2. The figure that
matters is the accuracy on the nodes that were learned from: whether the model can express the task at all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

from regard import models
from regard.api import train
from regard.data.graphs.batches import GraphBatch, GraphStream
from regard.data.graphs.files import Reading, read_graph
from regard.kernels.allocator import tune_allocator
from regard.kernels.sparse import Sparse
from regard.recipes import setting

PUBLISHED = {"cora": "83.0 ± 0.7", "citeseer": "72.5 ± 0.7"}  # Veličković 2018, table 2: mean of 100 runs
RATE, DECAY, DROPOUT = 0.005, 5e-4, 0.6
GROUPS, STEPS = 200, 500  # of DictionaryLookup
EPOCHS, ROUNDS = 20, 5  # epochs in a row, and how often each system has its turn

Epoch = Callable[[], None]


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    found: dict[str, Any] = {}
    for name in PUBLISHED:
        if options.only in (None, name):
            found[name] = accuracy(name, options.data / f"{name}.npz", seeds=options.seeds, threads=options.threads)
    if options.only in (None, "speed"):
        found["speed"] = speed(options.data / "cora.npz")
    if options.only in (None, "lookup"):
        found["lookup"] = {score: lookup(score, keys=options.keys) for score in ("gat", "gatv2")}
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found, keys=options.keys)


def accuracy(name: str, data: Path, *, seeds: int, threads: int) -> dict[str, float]:
    """The test accuracy of a recipe over the seeds, in percent, and what it took."""
    scores, seconds = [], 0.0
    for seed in range(1, seeds + 1):
        changes = [f"data.train={json.dumps(str(data))}", f"training.seed={seed}", f"training.threads={threads}"]
        with tempfile.TemporaryDirectory(prefix="regard-nodes-") as folder:
            report = train(name, out=Path(folder) / "model", changes=changes).report
        scores.append(float(report["scores"]["accuracy"]))
        seconds += report["seconds"]
        print(f"{name} seed {seed}: {scores[-1]:.1f} after {report['steps']} epochs", flush=True)
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    return {
        "mean": statistics.mean(scores),
        "deviation": spread,
        "error": spread / len(scores) ** 0.5,
        "seeds": len(scores),
        "seconds": seconds,
    }


def speed(data: Path) -> dict[str, float]:
    """Milliseconds of an epoch on Cora, ours and PyTorch Geometric's."""
    tune_allocator()
    graph = read_graph(str(data), Reading())
    learned, judged = (next(GraphStream(graph, graph.parts[p], graph.labels[graph.parts[p]]).in_order())
                       for p in ("train", "valid"))  # fmt: skip
    classes = len(graph.classes)
    systems = {
        "regard": ours(learned, judged, features=graph.width, classes=classes),
        "pytorch_geometric": theirs(learned, judged, features=graph.width, classes=classes),
    }
    laps: dict[str, list[float]] = {name: [] for name in systems}
    for epoch in systems.values():
        epoch()
    for _ in range(ROUNDS):
        for name, epoch in systems.items():
            for _ in range(EPOCHS):
                begin = time.perf_counter()
                epoch()
                laps[name].append(1000 * (time.perf_counter() - begin))
    medians = {name: statistics.median(times) for name, times in laps.items()}
    return {**medians, "ratio": medians["regard"] / medians["pytorch_geometric"]}


def ours(learned: GraphBatch, judged: GraphBatch, *, features: int, classes: int) -> Epoch:
    torch.manual_seed(1)
    model = models.from_config(models.config_class("gat")(), features=features, outputs=classes)
    return _epoch(model, lambda: model(learned.features, learned.cells), learned, judged, fused=True)


def theirs(learned: GraphBatch, judged: GraphBatch, *, features: int, classes: int) -> Epoch:
    """The GAT of PyTorch Geometric's own example, on dense features, as its datasets have them."""
    from torch_geometric.nn import GATConv

    class Peer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = GATConv(features, 8, heads=8, dropout=DROPOUT)
            self.second = GATConv(64, classes, heads=1, concat=False, dropout=DROPOUT)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            x = F.dropout(x, p=DROPOUT, training=self.training)
            x = F.elu(self.first(x, edges))
            x = F.dropout(x, p=DROPOUT, training=self.training)
            return self.second(x, edges)

    torch.manual_seed(1)
    model, sparse = Peer(), learned.features
    assert isinstance(sparse, Sparse)
    x = torch.zeros(sparse.cells.size)
    x[sparse.cells.rows.long(), sparse.cells.columns.long()] = sparse.values
    edges = torch.stack([learned.cells.columns.long(), learned.cells.rows.long()])
    return _epoch(model, lambda: model(x, edges), learned, judged, fused=False)


def _epoch(
    model: nn.Module, outputs: Callable[[], Tensor], learned: GraphBatch, judged: GraphBatch, *, fused: bool
) -> Epoch:
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=DECAY, fused=fused)

    def epoch() -> None:
        model.train()
        optimiser.zero_grad()
        F.cross_entropy(outputs()[learned.nodes], learned.wanted).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            (outputs()[judged.nodes].argmax(-1) == judged.wanted).float().mean().item()

    return epoch


def lookup(score: str, *, keys: int) -> dict[str, float]:
    """The accuracy of one score on DictionaryLookup, in percent: on the nodes learned from, and on other groups."""
    name = f"graph:lookup?keys={keys}&groups={GROUPS}&noise=0"
    changes = [f"data.train={json.dumps(name)}", f"model.score={score}", "model.width=128", f"training.steps={STEPS}"]
    with tempfile.TemporaryDirectory(prefix="regard-lookup-") as folder:
        model = train("graph", out=Path(folder) / "model", changes=changes)
        learned = model.task.open(setting(model.recipe), None).train
        scores = model.task.exam(learned, model.options()).scores(model.module)
    return {"training": scores["accuracy"].value, "test": float(model.report["scores"]["accuracy"])}


def show(found: dict[str, Any], *, keys: int) -> None:
    console = Console()
    table = Table("", "test accuracy", "deviation", "of the mean", "seeds", "minutes", "published")
    for name in (each for each in PUBLISHED if each in found):
        row = found[name]
        figures = [f"{row['mean']:.2f} %", f"{row['deviation']:.2f}", f"± {row['error']:.2f}", f"{row['seeds']}"]
        table.add_row(name, *figures, f"{row['seconds'] / 60:.1f}", PUBLISHED[name])
    if table.row_count:
        console.print(table)
    if "speed" in found:
        row = found["speed"]
        console.print(
            f"an epoch on Cora: regard {row['regard']:.1f} ms, PyTorch Geometric {row['pytorch_geometric']:.1f} ms, "
            f"{row['ratio']:.2f} of its time"
        )
    for score, row in found.get("lookup", {}).items():
        console.print(
            f"DictionaryLookup of {keys} keys with {score}: {row['training']:.1f} % of the nodes learned from, "
            f"{row['test']:.1f} % of those of other groups (chance is {100 / keys:.1f} %)"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench nodes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(), help="folder of cora.npz and citeseer.npz")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keys", type=int, default=10, help="keys of DictionaryLookup")
    parser.add_argument("--only", choices=[*PUBLISHED, "speed", "lookup"], help="this part alone")
    parser.add_argument("--json", action="store_true")
    return parser
