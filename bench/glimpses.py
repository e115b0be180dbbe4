"""Does it pay to learn where to look? One small shape somewhere in a picture, seen by glimpses.

    python -m bench glimpses [--places learned] [--places random] [--places centre] [--steps 1500]

A picture of 48 × 48 pixels shows one black shape of 10 to 14 pixels at any place, and its name is asked
for. The same network learns three times: it looks where it has learned to look, at random places, or always at
the centre. It has as many glimpses of the same size each time, and is scored on the test part. With --out, pictures and
models are kept there; a model that exists is resumed, or only scored if it is complete.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, get_args

import numpy
from rich.console import Console
from rich.table import Table

from regard.api import train
from regard.data.made.drawn import SHAPES, SIZE, Thing, pictures
from regard.layers.places import PlacesName

NAMES: tuple[PlacesName, ...] = get_args(PlacesName)
PARTS = {"train": 20_000, "valid": 1_000, "test": 2_000}  # pictures of each part
RADII = (5, 7)  # pixels
TOGETHER = 1_000  # pictures drawn at a time
MODEL = {"kind": "glimpse", "glimpses": 4, "patch": 8, "scales": 3, "width": 128, "paths": 4}
LEARNING: dict[str, object] = {
    "steps": 1500,
    "batch_size": 64,
    "learning_rate": 3e-3,
    "warmup": 100,
    "schedule": "cosine",
    "label_smoothing": 0.0,
    "weight_decay": 0.01,
    "patience": 0,
    "average_of": "last",
    "precision": "float32",
    "validate_every": 500,
    "checkpoint_every": 500,
    "seed": 1,
}


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    out = options.out or Path(tempfile.mkdtemp(prefix="regard-glimpses-"))
    files = {part: write(out / f"{part}.npz", count=PARTS[part], seed=seed) for seed, part in enumerate(PARTS)}
    rows = [{"places": name, **learned(name, options, files, out / name)} for name in options.places or NAMES]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("places", "accuracy", "parameters", "steps", "minutes", title="one shape somewhere, seen by glimpses")
    for row in rows:
        cost = [f"{row['parameters']:,}", f"{row['steps']:,}", f"{row['seconds'] / 60:.1f}"]
        table.add_row(row["places"], f"{row['accuracy']:.1f} %", *cost)
    Console().print(table)


def learned(name: PlacesName, options: argparse.Namespace, files: dict[str, Path], out: Path) -> dict[str, Any]:
    """What the network reaches on the test part if its places come from `name`, and what it cost."""
    model = ", ".join(f"{key} = {json.dumps(value)}" for key, value in {**MODEL, "places": name}.items())
    learning = LEARNING if options.steps is None else LEARNING | {"steps": options.steps}
    changes = [
        *(f"data.{part}={file}" for part, file in files.items()),
        "data.augment={}",
        "data.channels=1",
        f"model={{{model}}}",
        *(f"training.{key}={value}" for key, value in learning.items()),
        *options.set,
    ]
    report = train("pictures", out=out, changes=changes, show=sys.stderr.isatty()).report
    return {key: report[key] for key in ("parameters", "steps", "seconds")} | {"accuracy": report["scores"]["accuracy"]}


def write(file: Path, *, count: int, seed: int) -> Path:
    """The pictures of a part and the names of their shapes, in a file."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        things = [thing(Random(f"{seed} {number}")) for number in range(count)]
        images = numpy.concatenate([pictures(some) for some in _some([str(each) for each in things])])
        numpy.savez(file, images=images, labels=[each.shape for each in things])
    return file


def thing(random: Random) -> Thing:
    """One small black shape anywhere."""
    shape, radius = random.choice(list(SHAPES)), random.randint(*RADII)
    x, y = (random.randint(radius, SIZE - radius) for _ in range(2))
    return Thing("black", shape, x, y, radius)


def _some(scenes: list[str]) -> Iterator[list[str]]:
    return (scenes[begin : begin + TOGETHER] for begin in range(0, len(scenes), TOGETHER))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench glimpses", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--places", action="append", choices=NAMES, help="only these; may be given again")
    parser.add_argument("--steps", type=int, help="updates to make, and where the schedule ends")
    parser.add_argument("--out", type=Path, help="the folder of the models; those that exist are resumed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    return parser
