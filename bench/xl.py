"""Transformer-XL on WikiText-2: perplexity by length of memory, and the time of a token with cached memory.

    python -m bench xl --data FOLDER [--steps 1000] [--minutes 20] [--judged 20000] [--memories 0 64 128 256 512]

FOLDER holds train.txt.gz, valid.txt.gz and test.txt.gz. The recipe `wikitext2-xl` is trained twice, with its memory and
with none, on the same tokens. Both are then evaluated with memories of each length on the first `--judged` words of the
test text: the shape of the ablation in Dai 2019, table 6. At last the same context is given to the model in two ways,
for one token after another: block by block with the memory, and by re-running all of the context for every token.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from itertools import islice
from pathlib import Path

import numpy
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from bench import published
from regard.api import Model, load, train
from regard.models.transformer_xl import TransformerXL

MEMORIES = [0, 64, 128, 256, 512]
AGAIN = 16  # tokens for which the context is run again
BLOCKS = 16  # blocks that are read with memory


def main(arguments: list[str]) -> None:
    parser = published.parser("xl", __doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--judged", type=int, default=20_000, help="words of the validation and test texts")
    parser.add_argument("--memories", type=int, nargs="+", default=MEMORIES, metavar="LENGTH")
    options = parser.parse_args(arguments)
    folder = published.out(options)
    data = _data(options.data, folder / "data", options.judged)
    paths = {name: _trained(folder / name, data, options, memory) for name, memory in _ways().items()}
    rows = [_row(paths, memory) for memory in options.memories]
    speeds = [speed(load(paths["with"]), memory) for memory in options.memories if memory]
    _report(rows, speeds, options)


def _ways() -> dict[str, list[str]]:
    """How the two models learn."""
    return {"with": [], "without": ["model.memory=0", "model.evaluation_memory=0"]}


def _data(folder: Path, shortened: Path, judged: int) -> list[str]:
    """Where the texts are, as changes to a recipe; those to judge by are cut to `judged` words."""
    shortened.mkdir(parents=True, exist_ok=True)
    changes = [f"data.train={json.dumps(str(folder / 'train.txt.gz'))}"]
    for part in ("valid", "test"):
        with gzip.open(folder / f"{part}.txt.gz", "rt", encoding="utf-8") as file:
            words = (word for line in file for word in [*line.split(), "\n"])
            (shortened / f"{part}.txt").write_text(" ".join(islice(words, judged)), encoding="utf-8")
        changes.append(f"data.{part}={json.dumps(str(shortened / f'{part}.txt'))}")
    return changes


def _trained(path: Path, data: list[str], options: argparse.Namespace, memory: list[str]) -> Path:
    return train("wikitext2-xl", out=path, changes=[*data, *published.changes(options), *memory], show=True).path


def _row(paths: dict[str, Path], memory: int) -> dict[str, float]:
    """The perplexity of each model with a memory of that length."""
    models = {name: load(path, changes=[f"model.evaluation_memory={memory}"]) for name, path in paths.items()}
    return {"memory": memory, **{name: model.evaluate()["perplexity"].value for name, model in models.items()}}


def speed(model: Model, memory: int) -> dict[str, float]:
    """Milliseconds for each token: with the memory block by block, and with the same context run again each time."""
    module = model.module
    assert isinstance(module, TransformerXL)
    module.evaluation_memory, block = memory, model.task.block
    ids = numpy.random.default_rng(1).integers(4, module.output.out_features, memory + BLOCKS * block)
    text = torch.from_numpy(ids).unsqueeze(0)
    with torch.inference_mode():
        cached = _with_memory(module, text, memory, block)
        again = _run_again(module, text, memory + 1)
    return {"memory": memory, "cached_ms": 1000 * cached, "again_ms": 1000 * again, "ratio": again / cached}


def _with_memory(module: TransformerXL, text: Tensor, memory: int, block: int) -> float:
    _, state = module.read(text[:, :memory], None)
    begin = time.perf_counter()
    for segment in text[:, memory:].split(block, 1):
        hidden, state = module.read(segment, state)
        module.output(hidden)
    return (time.perf_counter() - begin) / (text.shape[1] - memory)


def _run_again(module: TransformerXL, text: Tensor, context: int) -> float:
    module(text[:, :context])
    begin = time.perf_counter()
    for place in range(AGAIN):
        module.output(module(text[:, place : place + context])[:, -1])
    return (time.perf_counter() - begin) / AGAIN


def _report(rows: list[dict[str, float]], speeds: list[dict[str, float]], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({"perplexity": rows, "speed": speeds}, indent=2))
        return
    table = Table("memory", "learned with memory", "learned without", title="test perplexity by length of memory")
    for row in rows:
        table.add_row(f"{row['memory']:.0f}", f"{row['with']:.2f}", f"{row['without']:.2f}")
    times = Table("memory", "cached, ms", "run again, ms", "times faster", title="evaluation, for each token")
    for row in speeds:
        times.add_row(*(f"{row[name]:.{digits}f}" for name, digits in _COLUMNS))
    console = Console()
    console.print(table)
    console.print(times)


_COLUMNS = (("memory", 0), ("cached_ms", 3), ("again_ms", 2), ("ratio", 0))
