"""`regard evaluate`: the scores of a model on data it has not learned from, alone or against another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue
from rich.console import Console

from regard.api.loading import load
from regard.api.model import Model
from regard.api.translator import Translator
from regard.errors import RegardError, shown
from regard.tasks.base import Score


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
    with Console(stderr=True).status("answering the examples to score the model"):
        _run(load(path, changes=changes), data, given, against=against, tokenized=tokenized, as_json=as_json)


def _run(
    model: Model,
    data: object,
    given: Mapping[str, JsonValue],
    *,
    against: Path | None,
    tokenized: bool,
    as_json: bool,
) -> None:
    path = model.path
    tokenize = "none" if tokenized else "13a"
    if not isinstance(model, Translator):
        options_of_pairs = {
            "--against": against,
            "--tokenized": tokenized,
            "--source": not _plain(data),
            "--beam": given,
        }
        for option, is_given in options_of_pairs.items():
            if is_given:
                raise RegardError(f'{option} is for models of pairs, and {path} is for task = "{model.recipe.task}"')
        show(model.evaluate(data), as_json=as_json)
        return
    options = model.options(decoding=None, **given)
    if against is not None:
        result = model.compare(load(against), data, tokenize=tokenize, decoding=options.decoding)
        print(json.dumps(result, indent=2) if as_json else _compared(result, first=path, second=against))
        return
    show(model.evaluate(data, tokenize=tokenize, decoding=options.decoding), as_json=as_json)


def show(scores: Mapping[str, Score], *, as_json: bool = False) -> None:
    """Scores, one a line, with how they came about."""
    if as_json:
        print(json.dumps({name: {"value": s.value, "signature": s.signature} for name, s in scores.items()}, indent=2))
        return
    width = max(12, *map(len, scores))
    for name, score in scores.items():
        print(f"{name:{width}} {score.value:8.2f}   {score.signature}".rstrip())


def _plain(data: object) -> bool:
    return data is None or isinstance(data, str)


def _compared(result: Mapping[str, Mapping[str, float]], *, first: Path, second: Path) -> str:
    lines = [f"first: {first}   second: {second}   p: how likely such a difference is by chance"]
    lines.append(f"{'':10} {'first':>8} {'second':>8} {'p':>8}")
    for name, row in result.items():
        lines.append(f"{name:10} {row['first']:8.2f} {row['second']:8.2f} {row['p']:8.4f}")
    return "\n".join(lines)
