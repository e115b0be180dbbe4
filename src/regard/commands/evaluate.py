"""`regard evaluate`: the scores of a model on data it was not trained on, alone or beside another model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from regard.api.loading import load
from regard.api.model import Model
from regard.api.translator import Translator
from regard.commands.progress_bar import progress_bar
from regard.errors import RegardError, shown
from regard.tasks.base import Score

ANSWERING = "answering the examples"


def run(
    path: Path,
    data: object,
    *,
    given: Mapping[str, JsonValue],
    changes: Sequence[str] = (),
    against: Path | None,
    tokenized: bool,
    as_json: bool,
) -> None:
    """Print the scores of a model; with `against`, of both models and how likely their difference is chance.

    `given` are the options of `regard run` that were given; `changes` are of keys of [data], and of
    keys of [model] that may change after training, as KEY=VALUE.
    """
    for change in changes:
        if not change.startswith(("data.", "model.")):
            raise RegardError(f"--set {shown(change)}: only keys of [data] can be changed here, such as data.columns")
    model = load(path, changes=changes)
    if not model.task.searched:
        _refuse(model, {"--tokenized": tokenized, "--beam": given}, "pairs and captions")
    if not isinstance(model, Translator):
        _refuse(model, {"--source": not (data is None or isinstance(data, str))}, "pairs")
    tokenize, decoding = "none" if tokenized else "13a", model.options(decoding=None, **given).decoding
    if against is None:
        with progress_bar(ANSWERING):
            scores = model.evaluate(data, tokenize=tokenize, decoding=decoding)
        show(scores, as_json=as_json)
        return
    other = load(against)
    with progress_bar(ANSWERING):
        result = model.compare(other, data, tokenize=tokenize, decoding=decoding)
    print(json.dumps(result, indent=2) if as_json else _compared(result, first=path, second=against))


def _refuse(model: Model, given: Mapping[str, object], which: str) -> None:
    """Refuse options that are for other models."""
    for option, is_given in given.items():
        if is_given:
            raise RegardError(
                f'{option} is for models of {which}, and {model.path} is for task = "{model.recipe.task}"'
            )


def show(scores: Mapping[str, Score], *, as_json: bool = False) -> None:
    """Print scores, one on each line, with their signatures."""
    if as_json:
        print(json.dumps({name: {"value": s.value, "signature": s.signature} for name, s in scores.items()}, indent=2))
        return
    width = max(12, *map(len, scores))
    for name, score in scores.items():
        print(f"{name:{width}} {score.value:8.2f}   {score.signature}".rstrip())


def _compared(result: Mapping[str, Mapping[str, float]], *, first: Path, second: Path) -> str:
    lines = [
        f"first: {first}   second: {second}",
        "difference: of the second, with the interval of 95 %; p: how likely such a difference is by chance",
    ]
    width = max(10, *map(len, result))
    lines.append(f"{'':{width}} {'first':>8} {'second':>8} {'difference':>26} {'p':>8}")
    for name, row in result.items():
        line = f"{name:{width}} {row['first']:8.2f} {row['second']:8.2f}"
        if "p" in row:
            interval = f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"
            line += f" {interval:>26} {row['p']:8.4f}"
        lines.append(line)
    if not all("p" in row for row in result.values()):
        lines.append("a score without an interval is not made of what each example adds to it, the same in both models")
    return "\n".join(lines)
