"""A recipe is everything a run needs, as TOML: checked key by key, completed with defaults, kept beside the model.

`load("g2p")` reads a bundled recipe, `load("my.toml")` a file, `load("my.tsv")` the bundled recipe that fits a data
file or a folder; `changes` are the `--set key=value` of the command line. Paths in a recipe are relative to the current
folder.

recipe    Recipe: the checked tables
body      [model] that starts from a pretrained model
presets   sizes with a name
fitting   what "auto" stands for
own_data  the recipe and the columns that fit a data file
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeGuard, cast

from pydantic import BaseModel

from regard import models, tasks
from regard.checking import check
from regard.data.pictures.sources import holds_pictures
from regard.data.splits import DataTable
from regard.data.whole import SETTINGS, read_text
from regard.errors import RegardError, cut, shown, unknown_name
from regard.models.facts import ModelConfig
from regard.recipes.body import Pretrained
from regard.recipes.fitting import fitted
from regard.recipes.own_data import entries_for, find_columns, recipe_for
from regard.recipes.presets import fill_in
from regard.recipes.recipe import Complete, Recipe, differences, setting
from regard.training.config import TrainingConfig

__all__ = [
    "Complete",
    "Pretrained",
    "Recipe",
    "Tell",
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
Tell = Callable[[str], None]
DEFAULT_TASK = "translate"
LARGEST = 2**63 - 1  # what an integer of torch or numpy can hold


def is_complete(recipe: Wish) -> TypeGuard[Complete]:
    """Whether [model] does not wait for a pretrained body."""
    return not isinstance(recipe.model, Pretrained)


def bundled() -> dict[str, str]:
    """The bundled recipes: name → the first line of the file, which says what the recipe is for."""
    found = {}
    for entry in sorted(resources.files(__package__).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            found[entry.name.removesuffix(".toml")] = entry.read_text("utf-8").partition("\n")[0].lstrip("# ")
    return found


def load(recipe: str | Path, changes: Iterable[str] = (), *, tell: Tell = lambda _: None) -> Wish:
    """A bundled recipe by name, a TOML file, or the bundled recipe that fits a data file.

    `changes` are of the form "training.steps=500"; `tell` is called with what was decided for the user.
    """
    name, changes = str(recipe), _listed(changes)
    if _is_data(name):
        fitting, why = recipe_for(name)
        tell(f"{name} is trained with the recipe {fitting}: {why}")
        own = [f"data.{key}={json.dumps(entry)}" for key, entry in entries_for(name).items()]
        name, changes = fitting, [*own, *changes]
    where, text = _find(name)
    table = _tables(text, where=where)
    if name in bundled():
        _drop_other_model(table, changes, tell)
    for change in changes:
        _apply(table, change)
    if name in bundled():
        _drop_other_data(table, changes, tell)
    return make(table, where=where, tell=tell)


def parse(text: str, *, where: str, changes: Iterable[str] = ()) -> Wish:
    """A recipe from its TOML; `where` is named in errors."""
    table = _tables(text, where=where)
    for change in _listed(changes):
        _apply(table, change)
    return make(table, where=where)


def make(table: Mapping[str, Any], *, where: str, tell: Tell = lambda _: None) -> Wish:
    """A recipe from its tables: the task checks [data], the kind checks [model]."""
    _refuse_absurd(table, where=where)
    table, decided = fitted(table, defaults=TrainingConfig().model_dump())
    if decided:
        tell(decided)
    name = table.get("task", DEFAULT_TASK)
    if not isinstance(name, str) or name not in tasks.TASKS:
        raise unknown_name(f"{where}: task", str(name), tasks.TASKS)
    model = _model_table(table, where=where)
    chosen = tasks.task(name)
    whole = {"task": name, "data": {}, **table, "model": model}
    _find_columns(whole["data"], chosen.data, tell)
    for key, value in chosen.defaults.items():
        outer, _, inner = key.partition(".")
        if isinstance(whole.setdefault(outer, {}), dict):
            whole[outer] = {inner: value, **whole[outer]}
    kind = model["kind"] if model.get("kind", "body") != "body" else None
    config = models.config_class(kind) if kind is not None else Pretrained
    parts = cast(type[Recipe[DataTable, ModelConfig]], Recipe.__class_getitem__((chosen.data, config)))
    return check(parts, whole, where=where)


def _refuse_absurd(table: Mapping[str, Any], *, where: str, prefix: str = "") -> None:
    """Refuse whole numbers that do not fit into 63 bits, wherever they stand: nothing can compute with them."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            _refuse_absurd(value, where=where, prefix=f"{prefix}{key}.")
        elif isinstance(value, int) and abs(value) > LARGEST:
            raise RegardError(f"{where}: {prefix}{key} = {shown(value)} is too large a number; use a smaller one")


def _learned_from(data: Mapping[str, Any]) -> object:
    """The entry of data.train, or that of the first corpus of a mixture."""
    mix = data.get("mix")
    first = mix[0] if not data.get("train") and isinstance(mix, list) and mix else None
    return first.get("path") if isinstance(first, dict) else data.get("train")


def _find_columns(data: object, config: type[DataTable], tell: Tell) -> None:
    """Replace `auto = true` in [data.columns] by the columns that are found in data.train, unless some are given."""
    columns = data.get("columns") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(columns, dict) or columns.get("auto") is not True:
        return
    given = {role: column for role, column in columns.items() if role != "auto"}
    roles = config.model_fields["columns"].annotation
    assert isinstance(roles, type)
    assert issubclass(roles, BaseModel)
    found, sentence = ({}, "") if given else find_columns(_learned_from(data), list(roles.model_fields))
    data["columns"] = {**found, **given}
    if sentence:
        tell(sentence)


def _drop_other_data(table: Mapping[str, Any], changes: Iterable[str], tell: Tell) -> None:
    """Leave out the valid and test files of a bundled recipe whose training data was changed."""
    changed = {change.partition("=")[0].strip() for change in changes}
    data = table.get("data")
    if "data.train" not in changed or not isinstance(data, dict):
        return
    left = [key for key in ("valid", "test") if data.get(key) and f"data.{key}" not in changed]
    for key in left:
        del data[key]
    if left:
        names = " and ".join(f"data.{key}" for key in left)
        verbs = ("belong", "are") if len(left) > 1 else ("belongs", "is")
        tell(f"{names} of the recipe {verbs[0]} to its own data.train and {verbs[1]} not used; name yours with --set")


def _drop_other_model(table: Mapping[str, Any], changes: Iterable[str], tell: Tell) -> None:
    """Leave out the [model] of a bundled recipe, except its kind, if another kind is asked for."""
    asked: dict[str, Any] = {}
    for change in changes:
        _apply(asked, change)
    kind, model = asked.get("model", {}).get("kind"), table.get("model")
    if kind is None or not isinstance(model, dict) or kind == model.get("kind") or len(model) == 1:
        return
    tell(
        f'[model] of the recipe is for kind = "{model.get("kind")}" and is not used; '
        f"the settings of {kind} are its own unless given with --set"
    )
    for key in [key for key in model if key != "kind"]:
        del model[key]


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
    return fill_in(model, where=where)


def _tables(text: str, *, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RegardError(f"{where} is not TOML: {error}") from None


def _is_data(name: str) -> bool:
    """Whether a name is that of a data file, any that is neither TOML nor named like a bundled recipe, or of a folder
    of data."""
    path = Path(name)
    try:
        if path.suffix == ".toml" or name in bundled():
            return False
        return path.is_file() or (path.is_dir() and bool(holds_pictures(name)))
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def _find(recipe: str) -> tuple[str, str]:
    """Where a recipe is, and its text."""
    path = Path(recipe)
    try:
        if path.suffix == ".toml":
            return recipe, read_text(path, most=SETTINGS)
    except FileNotFoundError:
        raise RegardError(f"{recipe} does not exist; name a TOML file or one of {', '.join(bundled())}") from None
    except (OSError, ValueError) as error:
        raise _unreadable(recipe, error) from None
    if recipe not in bundled():
        raise _no_recipe(path)
    return f"recipe {recipe}", (resources.files(__package__) / f"{recipe}.toml").read_text("utf-8")


def _no_recipe(path: Path) -> RegardError:
    """What to say of a name that is neither a recipe nor data."""
    if path.is_dir():
        return RegardError(
            f"{cut(path)} is a folder without pictures; name a file, or a folder with a folder of pictures for each "
            "label"
        )
    if path.suffix or len(path.parts) > 1:
        return RegardError(f"{cut(path)} does not exist; check the path (here it starts from {Path.cwd()})")
    return unknown_name("recipe", str(path), bundled())


def _unreadable(name: str, error: OSError | ValueError) -> RegardError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return RegardError(f"{shown(name, most=300)} cannot be read: {reason}; name another file")


def _listed(changes: object) -> list[str]:
    """Changes that were given in Python, where one text is easily taken for a list of them."""
    if isinstance(changes, str | bytes | Mapping) or not isinstance(changes, Iterable):
        raise RegardError(f'changes = {shown(changes)}: a list is expected, for example ["training.steps=500"]')
    return list(map(str, changes))


def _apply(table: dict[str, Any], change: str) -> None:
    """Put one "key=value" into the table; a value that is not valid TOML is read as a string."""
    key, sign, value = str(change).partition("=")
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
