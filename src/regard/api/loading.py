"""From a model directory to a model, or from what was trained."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

import torch
from torch import nn

from regard import recipes, tasks
from regard.api.elsewhere import Elsewhere
from regard.api.model import Model
from regard.api.translator import Translator
from regard.api.writer import Writer
from regard.directory import RECIPE, WEIGHTS, ModelDirectory
from regard.engines.ctranslate2.cache import stamp
from regard.errors import RegardError, shown
from regard.recipes import Complete, is_complete, setting
from regard.tasks.base import Aligns, AnyTask, Streams
from regard.training.report import Report
from regard.training.size import LOADED, require_room
from regard.training.tuning import tuned
from regard.training.weights import load_weights

TABLES = ("task", "data", "tokenizer", "model", "training", "decoding")


def load(path: str | Path, *, changes: Iterable[str] = (), why: str = "it was asked for") -> Model:
    """A trained model from its directory. Nothing in it is executed.

    `changes` are keys of its recipe's [data], as KEY=VALUE, for data of another form than that of the training, and
    keys of its [model] that no weight depends on.
    """
    directory = ModelDirectory(path_of(path))
    loaded = stamp(directory.path)
    recipe = stored_recipe(directory, changes := list(changes))
    _require_adjustable(recipe, changes)
    task = tasks.task(recipe.task).from_setting(setting(recipe), directory.codec(recipe.model.ids()))
    require_room(task.module, recipe.model, device=torch.device("cpu"), each=LOADED)
    module = tuned(task.module(recipe.model), recipe.training)
    load_weights(module, directory.weights(), origin=directory.path / WEIGHTS)
    elsewhere = None if changes else Elsewhere(directory.path, module.eval(), loaded=loaded)
    return model_of(directory.path, recipe, module.eval(), task, directory.report(), why=why, elsewhere=elsewhere)


def _require_adjustable(recipe: Complete, changes: Iterable[str]) -> None:
    """Refuse changes of keys of [model] that the weights were learned with."""
    for change in changes:
        table, _, key = change.partition("=")[0].partition(".")
        if table == "model" and key not in recipe.model.adjustable:
            able = "".join(f" and model.{each}" for each in sorted(recipe.model.adjustable))
            raise RegardError(f"{shown(change)}: only keys of [data]{able} can be changed after training; train again")


def path_of(given: object) -> Path:
    """A path that was given in Python; what cannot be one is a RegardError."""
    if not isinstance(given, str | PathLike):
        raise RegardError(f"a path is expected, as a text or a Path, and not {shown(given)}")
    path, reason = Path(given), "it holds a NUL character" if "\0" in str(given) else ""
    try:
        path.exists()
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise RegardError(f"{shown(str(path))} cannot be a path ({reason}); name another one")
    return path


def stored_recipe(directory: ModelDirectory, changes: Iterable[str] = ()) -> Complete:
    """The complete recipe of a model directory, with changes to it as KEY=VALUE.

    Its [model] is compared with the weights before anybody makes a model of these sizes.
    """
    directory.tables()
    path = directory.path / RECIPE
    recipe = recipes.load(path, changes)
    if missing := [name for name in TABLES if name not in recipe.model_fields_set]:
        raise RegardError(f"{path} has no [{missing[0]}], so it was cut off; copy the model again")
    return complete(recipe, where=str(path))


def complete(recipe: recipes.Wish, *, where: str) -> Complete:
    """A recipe whose [model] does not wait for a pretrained body."""
    if not is_complete(recipe):
        raise RegardError(f"{where}: [model] has no kind, so its sizes are not known; copy the model again")
    return recipe


def model_of(
    path: Path,
    recipe: Complete,
    module: nn.Module,
    task: AnyTask,
    report: Report,
    *,
    why: str = "it was trained",
    elsewhere: Elsewhere | None = None,
) -> Model:
    """A model with the verbs that its task can do."""
    kind = Translator if isinstance(task, Aligns) else Writer if isinstance(task, Streams) else Model
    return kind(path, recipe, module, task, report, why=why, elsewhere=elsewhere)
