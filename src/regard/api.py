"""The verbs, in Python: `train` and `load` give a `Model`, which answers, scores itself and shows what it looks at."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from regard import models, recipes
from regard.errors import RegardError
from regard.jobs import JOBS, Job
from regard.jobs.base import Model as Model
from regard.jobs.bodies import completed
from regard.recipes import Recipe
from regard.training import durable, machine
from regard.training import report as reports
from regard.training.checkpoint import Checkpoints
from regard.training.train import train as train_in

# what may change when a run is gone on with: how long it goes on, and on what
LIMITS = ("training.steps", "training.minutes", "training.patience")
CHANGEABLE = (*LIMITS, "training.threads", "training.device")
OF_BODIES = ("freeze", "layer_decay", "lora")


def train(
    recipe: str | Path | Recipe, *, out: str | Path | None = None, changes: Iterable[str] = (), show: bool = False
) -> Model:
    """Train what a recipe says, in the directory `out` (runs/NAME unless given); one that exists is gone on with.

    `changes` are "key=value" as on the command line; `show` reports progress on standard error.
    """
    chosen = recipe if isinstance(recipe, Recipe) else recipes.load(recipe, changes)
    name = "model" if isinstance(recipe, Recipe) else Path(recipe).stem
    path = Path(out) if out is not None else Path("runs") / name
    chosen = completed(chosen)
    forms = _job(chosen).forms
    if models.KINDS[chosen.kind].form not in forms:
        able = ", ".join(kind for form in forms for kind in models.kinds(form))
        raise RegardError(f'task = "{chosen.task}" is for the kinds {able}, and not for kind = "{chosen.kind}"')
    set_here = chosen.training.model_dump(include=set(OF_BODIES), exclude_defaults=True)
    if "encoder" not in forms and set_here:
        raise RegardError(f'training.{min(set_here)} is for tasks that start from a body, and not for "{chosen.task}"')
    _make_directory(path)
    with durable.alone(path):
        return _train(chosen, path, Console(stderr=True, quiet=not show, highlight=False))


def _train(recipe: Recipe, path: Path, console: Console) -> Model:
    begun = _settle(path, recipe)
    machine.prepare(recipe.training)
    prepared = _job(recipe).prepare(recipe, path, begun=begun, console=console)
    _require_same_data(path, prepared.learned_from, begun=begun)
    console.out(prepared.summary)
    report = train_in(
        prepared.module,
        prepared.task,
        prepared.batches,
        config=recipe.training,
        directory=path,
        names={"task": recipe.task, "kind": recipe.kind},
        width=getattr(recipe.model, "width", None),
        objective=prepared.objective,
        validate=prepared.validate,
        score=prepared.final,
        console=console,
    )
    if prepared.final.signatures:
        report["signatures"] = prepared.final.signatures
        durable.write_file(path / "report.json", reports.dump(report))
    else:
        limits = ", ".join(LIMITS)
        console.out(f"nothing is left to do: {report['ended']}; raise {limits}, or choose another directory with -o")
    return prepared.finish(report)


def load(path: str | Path) -> Model:
    """A trained model from its directory. Nothing in it is executed."""
    path = Path(path)
    if not (path / "weights.safetensors").is_file():
        raise RegardError(f"{path} is no model directory: it has no weights.safetensors; train one with: regard train")
    recipe = recipes.load(path / "recipe.toml")
    if missing := [name for name in Recipe.model_fields if name not in recipe.model_fields_set]:
        raise RegardError(f"{path / 'recipe.toml'} has no [{missing[0]}], so it was cut off; copy the model again")
    return _job(recipe).load(recipe, path)


def _job(recipe: Recipe) -> Job:
    if recipe.task not in JOBS:
        raise RegardError(f'task = "{recipe.task}" can be a body and nothing else yet; there are {", ".join(JOBS)}')
    return JOBS[recipe.task]


def _settle(path: Path, recipe: Recipe) -> bool:
    """Keep the recipe beside the model, and say whether something was learned there before.

    If so, it must have been by the same recipe, but for how long to train.
    """
    stored = path / "recipe.toml"
    begun = (path / "weights.safetensors").exists() or bool(Checkpoints(path / "checkpoints").steps())
    if begun and stored.exists():
        changed = recipes.differences(recipes.load(stored), recipe, except_for=CHANGEABLE)
        if changed:
            raise RegardError(
                f"{path} was trained with another recipe ({'; '.join(changed)}); "
                "choose another directory with -o, or undo the change"
            )
    durable.write_file(stored, recipe.to_toml().encode())
    return begun


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegardError(f"{path} cannot be written: {error.strerror}; choose another directory with -o") from None


def _require_same_data(path: Path, checksum: str, *, begun: bool) -> None:
    """A run goes on with the pairs it began with; what counts is what they say, not where or when they were written."""
    note = path / "checkpoints" / "learned-from.json"
    known = json.loads(note.read_bytes()) if note.exists() else None
    if known == checksum:
        return
    if begun and known is not None:
        raise RegardError(
            f"{path} was trained on other data than data.train has now; choose another directory with -o, "
            "or put the file back as it was"
        )
    note.parent.mkdir(exist_ok=True)
    durable.write_file(note, json.dumps(checksum).encode())
