"""Max regression (Lee 2019): the largest of 1 to 10 numbers from 1 to 99, by the mean absolute error of each pooling.

    python -m bench sets [--pooling max] [--pooling attention] [--steps 20000] [--out FOLDER]

Sets are drawn as in the paper, evenly by size, with numbers that may be equal: 200,000 to learn from, 2,000 to validate
on and 10,000 to test on. Every pooling learns the recipe `sets` with batches of 128 sets. The paper draws new sets for
every batch; here 20,000 steps read each set about thirteen times. With --out, models are kept there; a model that
exists is resumed, or only scored if it is complete.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.api import train
from regard.data.made.sets import Largest

SIZES = {"train": 200_000, "valid": 2_000, "test": 10_000}
POOLINGS: dict[str, tuple[float, list[str]]] = {  # the published error, and the changes to the recipe
    "max": (0.1355, []),
    "attention": (0.2085, ["model.pooling=attention"]),
    "sum": (1.902, ["model.pooling=sum"]),
    "mean": (2.133, ["model.pooling=mean"]),
}


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    out = options.out or Path(tempfile.mkdtemp(prefix="regard-sets-"))
    files = write_files(out)
    rows = [_learn(pooling, files, options, out) for pooling in options.pooling or POOLINGS]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("pooling", "MAE", "published", "RMSE", "parameters", "steps", "minutes", title="Max regression")
    for row in rows:
        errors = [f"{row[key]:.4f}" for key in ("mae", "published", "rmse")]
        table.add_row(
            row["pooling"], *errors, f"{row['parameters']:,}", f"{row['steps']:,}", f"{row['seconds'] / 60:.1f}"
        )
    Console().print(table)


def write_files(folder: Path) -> dict[str, str]:
    """The sets of each part as JSONL, the same in every run."""
    folder.mkdir(parents=True, exist_ok=True)
    rule, files = Largest(), {}
    for part, size in SIZES.items():
        random, path = Random(part), folder / f"{part}.jsonl"
        drawn = (rule.draw(random) for _ in range(size))
        path.write_text("".join(f'{{"set": {numbers}, "label": {largest}}}\n' for numbers, largest in drawn))
        files[part] = str(path)
    return files


def _learn(pooling: str, files: dict[str, str], options: argparse.Namespace, out: Path) -> dict[str, Any]:
    published, settings = POOLINGS[pooling]
    changes = [f"data.{part}={json.dumps(path)}" for part, path in files.items()]
    changes += [f"training.steps={options.steps}", f"training.threads={options.threads}", *settings, *options.set]
    report = train("sets", out=out / pooling, changes=changes, show=sys.stderr.isatty()).report
    return {
        "pooling": pooling,
        "published": published,
        **{name: report["scores"][name] for name in ("mae", "rmse")},
        **{name: report[name] for name in ("parameters", "steps", "seconds")},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench sets", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pooling", action="append", choices=POOLINGS, help="only this one; may be given again")
    parser.add_argument("--steps", type=int, default=20_000, help="updates to make, and where the schedule ends")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--out", type=Path, help="the folder of the files and models; models that exist are resumed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    return parser
