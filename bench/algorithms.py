"""The Universal Transformer beside the plain one on inputs longer than those learned (Dehghani 2019, table 4).

    python -m bench algorithms
    python -m bench algorithms --rule addition --longest 12 --steps 5000 --rate 0.003 --optimiser muon

Three models of the same width learn the same rule on the same examples: a Transformer with as many layers as the
Universal Transformer has steps, a Universal Transformer that always counts positions from 0, and one that counts them
from a random number while it learns, as in the paper. Each is then asked for inputs of the lengths learned and of
longer ones. A symbol is right if it stands in its place. Numbers begin with their lowest digit, as in tensor2tensor.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard import recipes
from regard.api import Model, load, train
from regard.data import made

RULES = {"copy": "", "addition": "&first=lowest"}  # and their settings
SYSTEMS = {
    "Transformer": 'kind = "transformer"',
    "Universal, from 0": 'kind = "universal"',
    "Universal": 'kind = "universal"\noffset = {offset}',
}
RECIPE = """
task = "transcribe"
[data]
train = "{rule}:train?longest={longest}&examples=50000{more}"
valid = "{rule}:valid?longest={longest}&examples=100{more}"
[tokenizer]
kind = "words"
vocabulary = 16
[model]
layers = {layers}
width = 64
heads = 4
hidden = 128
dropout = 0.0
{kind}
[training]
steps = {steps}
batch_tokens = 1024
learning_rate = {rate}
warmup = 100
schedule = "cosine"
optimiser = "{optimiser}"
validate_every = {half}
checkpoint_every = {half}
threads = {threads}
[decoding]
beam = 1
max_length = 100
"""
EXAMPLES = 200  # asked for each range of lengths


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench algorithms", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rule", choices=RULES, action="append", help="only this one; repeat")
    parser.add_argument("--longest", type=int, default=20, help="symbols of the longest input that is learned")
    parser.add_argument("--layers", type=int, default=4, help="layers of the one, steps of the other")
    parser.add_argument("--steps", type=int, default=800, help="updates to make")
    parser.add_argument("--rate", type=float, default=0.002, help="highest learning rate")
    parser.add_argument("--optimiser", choices=["adam", "adamw", "muon"], default="adam")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="keep the models here; models that are there are not learned again")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    out = options.out or Path(tempfile.mkdtemp(prefix="regard-algorithms-"))
    rows = []
    for rule in options.rule or RULES:
        for system in SYSTEMS:
            model = _learned(rule, system, options, out / rule / system.replace(",", "").replace(" ", "-").lower())
            rows += [{"rule": rule, "system": system, **row} for row in by_length(model, rule, options.longest)]
    print(json.dumps(rows, indent=2)) if options.json else _show(rows)


def _learned(rule: str, system: str, options: argparse.Namespace, out: Path) -> Model:
    if (out / "report.json").exists():
        return load(out)
    settings = {name: getattr(options, name) for name in ("longest", "layers", "steps", "rate", "optimiser", "threads")}
    kind = SYSTEMS[system].format(offset=2 * options.longest)
    text = RECIPE.format(rule=rule, more=RULES[rule], kind=kind, half=max(options.steps // 2, 1), **settings)
    return train(recipes.parse(text, where=f"{rule}, {system}"), out=out, show=True)


def by_length(model: Model, rule: str, longest: int) -> list[dict[str, float | str]]:
    """How many symbols and how many whole answers are right, in percent: lengths as learned, half more, twice."""
    rows: list[dict[str, float | str]] = []
    for low, high in ((3, longest), (longest + 1, 3 * longest // 2), (3 * longest // 2 + 1, 2 * longest)):
        asked = list(made.rows(f"{rule}:test?shortest={low}&longest={high}&examples={EXAMPLES}{RULES[rule]}"))
        said = [found[0].text.split() for found in model.answers([text for text, _ in asked])]
        scores = scored(said, [target.split() for _, target in asked])
        rows.append({"lengths": f"{low} to {high}", **scores})
    return rows


def scored(said: list[list[str]], wanted: list[list[str]]) -> dict[str, float]:
    """Symbols in their places, of as many as the longer of answer and target has; and whole answers. In percent."""
    pairs = list(zip(said, wanted, strict=True))
    right = sum(sum(map(str.__eq__, *pair)) for pair in pairs)
    return {
        "symbols": 100 * right / sum(max(map(len, pair)) for pair in pairs),
        "exact": 100 * sum(answer == target for answer, target in pairs) / len(pairs),
    }


def _show(rows: list[dict[str, float | str]]) -> None:
    table = Table("rule", "system", "symbols in the input", "symbols right, %", "answers right, %")
    for row in rows:
        table.add_row(*(str(row[name]) for name in ("rule", "system", "lengths")), *_numbers(row))
    Console().print(table)


def _numbers(row: dict[str, float | str]) -> list[str]:
    return [f"{row[name]:.1f}" for name in ("symbols", "exact")]
