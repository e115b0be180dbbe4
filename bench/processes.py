"""Learning with two processes of one thread each beside one process of two threads, target tokens a second.

    python -m bench processes --data FOLDER

Both learn the same small Transformer (4 + 4 layers, width 128) from Multi30k with 4096 tokens in a step, by
`regard train`, in turn. A figure is the median over the steps after the first quarter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import options
from bench.comparison import conclude
from bench.cost import TINY
from bench.results import Row, Table
from regard.errors import RegardError

TOKENS, STEPS, POINT = 4096, 120, 5  # of a step; of a run; of a point of its curve
RUNS = {"two processes of one thread": (2, 1), "one process of two threads": (1, 2)}


def main(arguments: list[str]) -> None:
    given = options.read(options.parser("processes", __doc__), arguments)
    steps = 2 * POINT if given.quick else STEPS
    figures: dict[str, list[float]] = {name: [] for name in RUNS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.repeats):
            for name in list(RUNS)[:: -1 if number % 2 else 1]:
                out = Path(folder) / f"{number}-{RUNS[name][0]}"
                figures[name].append(_speed(given, out, *RUNS[name], steps=steps))
    first, second = (Row(name, found, ours=number == 0) for number, (name, found) in enumerate(figures.items()))
    about = "One small model learned by two processes of one thread, which average their gradients, and by one of two."
    conclude("processes", about, given, [Table("learning together", "target tokens/s", [first, second])])


def _speed(given: argparse.Namespace, out: Path, processes: int, threads: int, *, steps: int) -> float:
    """Train, and return the target tokens a second."""
    files = {side: f"{given.data}/tok/train.lc.norm.tok.{side}.gz" for side in ("en", "de")}
    changes = [
        f'data.train={{source="{files["en"]}", target="{files["de"]}"}}',
        *("data.hold_out=200", "tokenizer.split=spaces", f"tokenizer.vocabulary={TINY.vocabulary}"),
        *(f"model.{key}={value}" for key, value in _model().items()),
        *(f"training.steps={steps}", f"training.batch_tokens={TOKENS // processes}", f"training.threads={threads}"),
        *("training.validate_every=0", f"training.record_every={POINT}", f"training.checkpoint_every={steps}"),
        *("training.average_of=last", "decoding.max_length=2"),
    ]
    words = [sys.executable, "-m", "regard", "train", "multi30k-en-de", "-o", str(out)]
    words += [part for change in changes for part in ("--set", change)]
    words += ["--processes", str(processes)] if processes > 1 else []
    surroundings = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=surroundings)
    if done.returncode:
        raise RegardError(f"regard train ended with exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    points = json.loads((out / "report.json").read_text())["history"]
    return statistics.median(point["tokens_per_second"] for point in points[len(points) // 4 :])


def _model() -> dict[str, int | float]:
    sizes = {"layers": TINY.layers, "width": TINY.width, "hidden": TINY.hidden, "heads": TINY.heads}
    return {**sizes, "dropout": 0.1}
