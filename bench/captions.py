"""Captions of drawn pictures by soft attention, hard attention and a Transformer, side by side.

    python -m bench captions [--steps 1500] [--minutes 20] [--out runs/captions-forms] [--form soft] [--form hard]

Each form learns the recipe `captions` with the same pictures and steps, and is scored on the test part, greedily and by
itself: the share of captions that are exactly right, BLEU, and the share of the words naming an object for which the
place looked at most lies inside that object. With --out, models are kept there; a model that exists is resumed,
or only scored if it is complete.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.api import train

# the changes to the recipe that make each form
FORMS = {
    "soft": [],
    "hard": ['model.choice="hard"'],
    "transformer": [
        'model={kind="caption", decoder="transformer", layers=2, width=96, filters=24, heads=4, hidden=192}'
    ],
}
SCORES = ("exact", "bleu", "pointing")
COSTS = ("steps", "seconds", "tokens_per_second", "parameters")


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    out = options.out or Path(tempfile.mkdtemp(prefix="regard-captions-"))
    rows = [{"form": form, **learned(form, options, out / form)} for form in options.form or FORMS]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("", "exact", "BLEU", "pointing", "parameters", "steps", "minutes", title="captions of drawn pictures")
    for row in rows:
        scores = [f"{row['exact']:.1f} %", f"{row['bleu']:.1f}", f"{row['pointing']:.1f} %"]
        cost = [f"{row['parameters']:,}", f"{row['steps']:,}", f"{row['seconds'] / 60:.1f}"]
        table.add_row(row["form"], *scores, *cost)
    Console().print(table)


def learned(form: str, options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """What one form reaches on the test part, and what it cost."""
    limits = {name: getattr(options, name) for name in ("minutes", "steps")}
    changes = [*FORMS[form], *(f"training.{name}={value}" for name, value in limits.items() if value is not None)]
    report = train("captions", out=out, changes=[*changes, *options.set], show=sys.stderr.isatty()).report
    return {name: report["scores"][name] for name in SCORES} | {name: report[name] for name in COSTS}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench captions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--form", action="append", choices=FORMS, help="only this form; may be given again")
    parser.add_argument("--minutes", type=float, help="each form learns no longer than this")
    parser.add_argument("--steps", type=int, help="updates to make, and where the schedule ends")
    parser.add_argument("--out", type=Path, help="the folder of the models; those that exist are resumed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    return parser
