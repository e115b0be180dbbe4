"""Where the time of training steps goes, between products and elsewhere.

    python -m bench profile --data FOLDER [--size base] [--precision float32]     FOLDER of Multi30k, as for train-tiny
    python -m bench profile --data input.txt --size gpt                            or gpt-small

The same batches and first weights as `train-tiny`, `train-base` and `train-gpt`. The time of an operation of torch is
the CPU time that it takes itself, in the thread that calls it, so that shares add up to the whole; the rest is Python.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import material, options, training_speed, writing_speed
from bench.cost import BASE, TINY
from bench.worker import System, Worker, scratch

SIZES = {"tiny": TINY, "base": BASE}
STEPS = 8
MOST = 25  # operations that are shown one by one
PARTS = {  # what an operation belongs to, by a word in its name; the first that fits
    "attention": ("attention",),
    "products": ("mkldnn_linear", "addmm", "mm", "linear", "matmul", "baddbmm", "Linear", "Products"),
    "dropout": ("dropout", "bernoulli", "random_"),
    "norms": ("layer_norm", "rms_norm", "group_norm"),
    "loss": ("softmax", "nll_loss", "logsumexp", "InRows", "exp"),
    "casts and copies": ("copy", "_to_copy", "clone", "contiguous", "cat", "index", "gather", "embedding", "stack"),
    "optimiser": ("adam", "foreach", "norm", "lerp"),
    "additions and activations": ("add", "mul", "relu", "gelu", "threshold", "sum", "div", "fill", "zero"),
}
GPTS = {"gpt": 0, "gpt-small": 1}  # of those of `train-gpt`


@dataclass(frozen=True)
class Operation:
    name: str
    seconds: float
    calls: int

    @property
    def part(self) -> str:
        return next((part for part, words in PARTS.items() if any(word in self.name for word in words)), "other")


def main(arguments: list[str]) -> None:
    parser = options.parser("profile", __doc__, data="folder of Multi30k, with tok/ inside; for gpt a text")
    parser.add_argument("--size", choices=[*SIZES, *GPTS], default="tiny")
    parser.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto")
    given = options.read(parser, arguments)
    with scratch() as folder:
        gpt = given.size in GPTS
        if gpt:
            tokenizer, ids = writing_speed.characters(given.data, Path(folder))
            setting = writing_speed.settings_for(tokenizer.size)[GPTS[given.size]]
            paths = {
                "batches": str(writing_speed.write_blocks(Path(folder), setting, ids, count=STEPS)),
                "weights": str(material.write_weights(Path(folder) / "weights.npz", setting.build())),
            }
            settings = {**setting.settings(), **writing_speed.LEARNING, **paths}
        else:
            settings, _ = training_speed.prepare(Path(folder), given, SIZES[given.size], count=STEPS)
        system = System(
            "regard", "regard_profile", {"precision": given.precision, "model": "gpt" if gpt else "transformer"}
        )
        with Worker(system, threads=given.threads) as worker:
            worker.ask("prepare", **{**settings, "threads": given.threads, **system.settings})
            worker.ask("run", steps=1)  # a first step builds what later ones use again
            found = worker.ask("run", steps=1 if given.quick else STEPS)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    operations = [Operation(name, seconds, found["calls"][name]) for name, seconds in found["spent"].items()]
    _show(sorted(operations, key=lambda each: -each.seconds), found["seconds"], found["targets"])


def _show(operations: list[Operation], seconds: float, targets: int) -> None:
    console = Console()
    parts: dict[str, float] = {}
    for each in operations:
        parts[each.part] = parts.get(each.part, 0.0) + each.seconds
    parts["Python, and waiting"] = seconds - sum(parts.values())
    table = Table("part", "seconds", "share", title=f"{targets:,} targets in {seconds:.2f} s, while watched")
    for part, spent in sorted(parts.items(), key=lambda pair: -pair[1]):
        table.add_row(part, f"{spent:.3f}", f"{spent / seconds:.1%}")
    console.print(table)
    table = Table("operation", "seconds", "share", "calls", "part")
    for each in operations[:MOST]:
        table.add_row(each.name, f"{each.seconds:.3f}", f"{each.seconds / seconds:.1%}", f"{each.calls:,}", each.part)
    console.print(table)
