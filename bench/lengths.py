"""Attention against the fixed vector, by length of the source: the claim that attention was invented for.

    python -m bench lengths --source train.en.gz --target train.de.gz --test-source test.en.gz --test-target test.de.gz

Two recurrent encoder-decoders are trained alike on the same pairs, one that must squeeze the source into a vector, one
that looks back at it; then BLEU is printed for test sentences of each length.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.api import Model, load, train
from regard.tasks.scores import bleu

BORDERS = (0, 8, 12, 16, 20, 1000)  # words of the source


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench lengths", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("source", "target", "test-source", "test-target"):
        parser.add_argument(f"--{name}", required=True, help="a file of lines, plain or .gz")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--out", type=Path, help="keep the two models here; models that exist are resumed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    out = options.out or Path(tempfile.mkdtemp(prefix="regard-lengths-"))
    models = {score: _train(score, options, out / score) for score in ("none", "additive")}
    rows = by_length(models)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(
        "words in source", "sentences", "fixed vector", "attention", "gain", title="BLEU by length of the source"
    )
    for row in rows:
        gain = row["additive"] - row["none"]
        table.add_row(
            row["words"], str(row["sentences"]), f"{row['none']:.1f}", f"{row['additive']:.1f}", f"{gain:+.1f}"
        )
    Console().print(table)


def _train(score: str, options: argparse.Namespace, out: Path) -> Model:
    changes = [
        f'data.train={{source="{options.source}", target="{options.target}"}}',
        f'data.test={{source="{options.test_source}", target="{options.test_target}"}}',
        "data.valid=[]",
        f"model.score={score}",
        f"training.steps={options.steps}",
    ]
    return load(out) if (out / "report.json").exists() else train("rnn-attention", out=out, changes=changes, show=True)


def by_length(models: dict[str, Model]) -> list[dict[str, float | str]]:
    """BLEU of each model on the test sentences between two borders."""
    wanted = next(iter(models.values())).references()
    answers = {name: [found[0].text for found in model.answers(list(wanted))] for name, model in models.items()}
    rows: list[dict[str, float | str]] = []
    for low, high in pairwise(BORDERS):
        chosen = [place for place, text in enumerate(wanted) if low < len(text.split()) <= high]
        if chosen:
            references = [list(wanted.values())[place] for place in chosen]
            scores = {name: bleu([said[place] for place in chosen], references) for name, said in answers.items()}
            name = f"{low + 1} to {high}" if high < BORDERS[-1] else f"{low + 1} and more"
            rows.append({"words": name, "sentences": len(chosen), **scores})
    return rows
