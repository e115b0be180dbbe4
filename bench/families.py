"""Recurrence, convolution and attention side by side: one task, one number of parameters, the same tokens.

    python -m bench families [--budget 1000000] [--steps 1500] [--minutes 10] [--distance 32] [--data FOLDER] [--json]

Three encoder-decoders learn the same batches in the same order, each in a process of its own: an LSTM with additive
attention (Bahdanau 2015), ConvS2S (Gehring 2017) and the Transformer (Vaswani 2017). Each is made as wide as the budget
of parameters allows. The task is spelling → pronunciation; with --data, the folder of Multi30k, it is English → German.
Answers are greedy. Printed are the score, what learning cost, and two counts by formula:

    path          layers that a signal passes until one state has read two positions at a distance n
    in sequence   calls of layers that wait for each other while learning from a source and a target of n tokens

Minutes and tokens/s are those of learning; processor minutes and peak memory are those of the whole process, which
reads the data, learns and scores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.worker import System, Worker, scratch
from regard import recipes, tasks
from regard.errors import RegardError
from regard.models import config_class
from regard.models.facts import ModelConfig
from regard.recipes import setting
from regard.training.size import count_parameters

Settings = dict[str, Any]
Count = Callable[[ModelConfig], int]
NEAR = 0.05  # how far from the budget a model may be, as a share of it
WIDEST = 4096
BETTER = {"bleu": "BLEU", "word_error": "word error, %"}  # the score that a task is judged by


@dataclass(frozen=True)
class Family:
    """A kind of model, its sizes but for the width, and the rate it learns well with.

    `grain` divides every width. `path` and `steps` are formulas in n, with k the kernel and L the layers of a side.
    """

    name: str
    kind: str
    sizes: Mapping[str, Any]
    rate: float
    path: str
    steps: str
    grain: int = 2

    def settings(self, width: int) -> Settings:
        hidden = {"hidden": 4 * width} if "hidden" in config_class(self.kind).model_fields else {}
        return {"kind": self.kind, "width": width, **hidden, **self.sizes}

    def path_length(self, distance: int) -> int:
        """Of two positions at this distance."""
        if self.path == "n + 1":
            return distance + 1
        return 1 if self.path == "1" else -(-distance // (self.sizes["kernel"] - 1))

    def in_sequence(self, length: int) -> int:
        """For a source and a target of this length."""
        layers: int = self.sizes["layers"]
        return 2 * layers * length if "n" in self.steps else 2 * layers


FAMILIES = (
    Family("RNN with attention", "seq2seq", {"layers": 1, "cell": "lstm"}, 0.003, "n + 1", "2 L n"),
    Family("ConvS2S", "conv_seq2seq", {"layers": 4, "kernel": 3, "maximum": 256}, 0.002, "⌈n / (k − 1)⌉", "2 L"),
    Family("Transformer", "transformer", {"layers": 2, "heads": 4, "wiring": "pre_norm"}, 0.004, "1", "2 L", grain=4),
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench families", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=int, default=1_000_000, help="parameters of each model, to within 5 %%")
    parser.add_argument("--steps", type=int, default=1500, help="updates that each makes, on the same batches")
    parser.add_argument("--minutes", type=float, help="each learns no longer than this")
    parser.add_argument("--distance", type=int, default=32, help="n of the two counts")
    parser.add_argument("--data", type=Path, help="folder of Multi30k; without it, the embedded dictionary")
    parser.add_argument("--threads", type=int, default=1, help="that each process may use")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key for all")
    parser.add_argument("--out", type=Path, help="keep the models here; models that exist are resumed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    recipe, common = chosen(options)
    count = counter(recipe, common)
    with scratch() as folder:
        out = options.out or Path(folder)
        made = [(family, sized(family, options.budget, count)) for family in FAMILIES]
        rows = [measure(family, settings, recipe, common, out, options) for family, settings in made]
    if options.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        Console(width=200).print(table(rows, options.distance))


def chosen(options: argparse.Namespace) -> tuple[str, list[str]]:
    """The recipe, and the changes to it that all families share."""
    changes = [
        f"training.steps={options.steps}",
        f"training.warmup={max(options.steps // 10, 1)}",
        f"training.threads={options.threads}",
        "training.precision=float32",
        "training.validate_every=0",
        "training.average=1",
        "decoding.beam=1",
        *([f"training.minutes={options.minutes}"] if options.minutes is not None else []),
    ]
    if options.data is None:
        return "demo", [*changes, *options.set]
    parts = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    files = {name: [options.data / f"{part}.{side}.gz" for side in ("en", "de")] for name, part in parts.items()}
    named = [f'data.{name}={{source="{source}", target="{target}"}}' for name, (source, target) in files.items()]
    return "multi30k-en-de", [*changes, *named, *options.set]


def counter(recipe: str, changes: list[str]) -> Count:
    """A function that counts the parameters of a model on the vocabularies of the task."""
    loaded = recipes.load(recipe, changes)
    kind, known = tasks.task(loaded.task), setting(loaded)
    task = kind.from_setting(known, kind.learn(known, kind.open(known, None).train, None))
    return lambda config: count_parameters(task.module, config)


def sized(family: Family, budget: int, count: Count) -> Settings:
    """The settings of the width that comes closest to the budget."""

    def parameters(width: int) -> int:
        return count(config_class(family.kind)(**family.settings(width)))

    low, high = family.grain, WIDEST
    while high - low > family.grain:  # parameters grow with the width
        middle = (low + high) // 2 // family.grain * family.grain
        low, high = (middle, high) if parameters(middle) <= budget else (low, middle)
    width = min((low, high), key=lambda each: abs(parameters(each) - budget))
    if abs(parameters(width) - budget) > NEAR * budget:
        raise RegardError(f"{family.name} has no width with {budget:,} parameters to within 5 %; take another --budget")
    return family.settings(width)


def measure(
    family: Family, settings: Settings, recipe: str, common: list[str], out: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Train and score one family in a process of its own."""
    model = ", ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
    changes = [f"model={{{model}}}", f"training.learning_rate={family.rate}", *common]
    with Worker(System(family.name, "regard_families"), threads=options.threads) as worker:
        worker.ask("prepare", recipe=recipe, changes=changes, out=str(out / family.kind))
        told = worker.ask("run")
    name = next(score for score in BETTER if score in told["scores"])
    return {
        "family": family.name,
        "model": settings,
        "score": name,
        name: told["scores"][name],
        **{key: told[key] for key in ("parameters", "steps", "tokens", "tokens_per_second")},
        **{key: told[key] for key in ("seconds", "processor_seconds", "peak_mb")},
        "flops_per_token": told["flops"] / told["tokens"],
        "path": family.path,
        "path_length": family.path_length(options.distance),
        "in_sequence": family.steps,
        "sequential_calls": family.in_sequence(options.distance),
    }


def table(rows: list[dict[str, Any]], distance: int) -> Table:
    """For the terminal."""
    score = rows[0]["score"]
    made = Table(
        *("family", BETTER[score], "parameters", "MFLOPs per token", f"path, n = {distance}"),
        *(f"in sequence, n = {distance}", "minutes", "processor minutes", "tokens/s", "peak MB"),
        title=f"the same {rows[0]['tokens']:,} target tokens" if len({row["tokens"] for row in rows}) == 1 else None,
    )
    for row in rows:
        made.add_row(
            row["family"],
            f"{row[score]:.1f}",
            f"{row['parameters']:,}",
            f"{row['flops_per_token'] / 1e6:.1f}",
            f"{row['path']} = {row['path_length']}",
            f"{row['in_sequence']} = {row['sequential_calls']}",
            f"{row['seconds'] / 60:.1f}",
            f"{row['processor_seconds'] / 60:.1f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['peak_mb']:,.0f}",
        )
    return made
