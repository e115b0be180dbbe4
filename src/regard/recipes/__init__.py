"""A recipe is everything a run needs, as TOML: checked key by key, completed with defaults, kept beside the model.

`load("g2p")` reads a bundled recipe, `load("my.toml")` a file; `changes` are the `--set key=value` of the command line.
Paths in a recipe count from the current folder.

recipe    Recipe: the checked tables
body      [model] that starts from a pretrained model
presets   sizes with a name
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeGuard, cast

from regard import models, tasks
from regard.checking import check
from regard.data.splits import DataTable
from regard.errors import RegardError, shown, unknown_name
from regard.models.facts import ModelConfig
from regard.recipes.body import Pretrained
from regard.recipes.presets import fill_in
from regard.recipes.recipe import Complete, Recipe, differences, setting

__all__ = [
    "Complete",
    "Pretrained",
    "Recipe",
    "Wish",
    "bundled",
    "check",
    "differences",
    "is_complete",
    "load",
    "make",
    "parse",
    "setting",
]

Wish = Recipe[DataTable, ModelConfig] | Recipe[DataTable, Pretrained]  # as written: [model] may name a pretrained body
DEFAULT_TASK = "translate"


def is_complete(recipe: Wish) -> TypeGuard[Complete]:
    """Whether [model] does not wait for a pretrained body."""
    return not isinstance(recipe.model, Pretrained)


def bundled() -> dict[str, str]:
    """The recipes that come along: name → the first line of the file, which says what it is."""
    found = {}
    for entry in sorted(resources.files(__package__).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            found[entry.name.removesuffix(".toml")] = entry.read_text("utf-8").partition("\n")[0].lstrip("# ")
    return found


def load(recipe: str | Path, changes: Iterable[str] = ()) -> Wish:
    """A bundled recipe by name, or a TOML file, with `changes` of the form "training.steps=500"."""
    where, text = _find(str(recipe))
    return parse(text, where=where, changes=changes)


def parse(text: str, *, where: str, changes: Iterable[str] = ()) -> Wish:
    """A recipe from its TOML; `where` is named in errors."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RegardError(f"{where} is not TOML: {error}") from None
    for change in changes:
        _apply(table, change)
    return make(table, where=where)


def make(table: Mapping[str, Any], *, where: str) -> Wish:
    """A recipe from its tables: the task checks [data], the kind checks [model]."""
    name = table.get("task", DEFAULT_TASK)
    if not isinstance(name, str) or name not in tasks.TASKS:
        raise unknown_name(f"{where}: task", str(name), tasks.TASKS)
    model = _model_table(table, where=where)
    chosen = tasks.task(name)
    whole = {"task": name, "data": {}, **table, "model": model}
    for key, value in chosen.defaults.items():
        outer, _, inner = key.partition(".")
        if isinstance(whole.setdefault(outer, {}), dict):
            whole[outer] = {inner: value, **whole[outer]}
    kind = model["kind"] if model.get("kind", "body") != "body" else None
    config = models.config_class(kind) if kind is not None else Pretrained
    parts = cast(type[Recipe[DataTable, ModelConfig]], Recipe.__class_getitem__((chosen.data, config)))
    return check(parts, whole, where=where)


def _model_table(table: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """The [model] of a recipe with its preset filled in."""
    model = table.get("model")
    if isinstance(model, dict) and "body" in model and model.get("kind", "body") == "body":
        return model
    if not isinstance(model, dict) or not isinstance(model.get("kind"), str):
        raise RegardError(
            f'{where}: [model] needs a kind, for example kind = "transformer"; there are {", ".join(models.KINDS)}'
        )
    if model["kind"] not in models.KINDS:
        raise unknown_name(f"{where}: model.kind", model["kind"], models.KINDS)
    data = table.get("data", {})
    return fill_in(model, data=data if isinstance(data, dict) else {}, where=where)


def _find(recipe: str) -> tuple[str, str]:
    """Where a recipe is, and its text."""
    path = Path(recipe)
    try:
        if path.suffix == ".toml" or path.is_file():
            return recipe, path.read_text("utf-8")
    except FileNotFoundError:
        raise RegardError(f"{recipe} does not exist; name a TOML file or one of {', '.join(bundled())}") from None
    except (OSError, ValueError) as error:
        raise RegardError(f"{shown(recipe)} cannot be read: {error}") from None
    if recipe not in bundled():
        raise unknown_name("recipe", recipe, bundled())
    return f"recipe {recipe}", (resources.files(__package__) / f"{recipe}.toml").read_text("utf-8")


def _apply(table: dict[str, Any], change: str) -> None:
    """Put one "key=value" into the table; a value that is not valid TOML is read as a string."""
    key, sign, value = change.partition("=")
    if not sign or not key.strip():
        raise RegardError(f"--set {shown(change)}: expected KEY=VALUE, for example training.steps=500")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = value
    *outer, last = key.strip().split(".")
    for name in outer:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            raise RegardError(f"--set {shown(change)}: {name} is {shown(inner)} and has no parts")
        table = inner
    table[last] = parsed
