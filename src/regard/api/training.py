"""From a recipe to a trained model, for every task."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.status import Status
from torch import nn

from regard import durable, models, recipes, tasks
from regard.api.body import completed, start_from
from regard.api.elsewhere import Elsewhere
from regard.api.judging import judge
from regard.api.loading import model_of, path_of
from regard.api.model import Model
from regard.api.reading import Data, read_data
from regard.data.streams import Batch, Stream
from regard.decoding import DecodingConfig
from regard.directory import LABELS, NUMBERS, RECIPE, TOKENIZERS, WEIGHTS, ModelDirectory
from regard.engines.ctranslate2.cache import stamp
from regard.engines.ctranslate2.precision import kept, not_compared
from regard.errors import RegardError, listed
from regard.interchange.expressible import obstacle
from regard.interchange.huggingface import Imported
from regard.recipes import Complete, Recipe, Wish
from regard.tasks.base import AnyTask, Extends, Objective, RunOptions, Work
from regard.training import machine
from regard.training.checkpoint import Checkpoints
from regard.training.distribution import Crew, joined
from regard.training.planning import Timing
from regard.training.size import LOADED, TRAINED, require_room
from regard.training.train import LIMITS
from regard.training.train import train as train_in
from regard.training.tuning import tuned
from regard.training.validation import Judge, final, validation

JUDGED = 0.05  # of the time that a run took: so long int8 may be compared with float32 when it ends
WORTH = 5.0  # seconds; a run so short that it would leave less is followed by no comparison

# keys that may differ from the stored recipe when a run is resumed
CHANGEABLE = (*LIMITS, "training.threads", "training.device", "training.distribution.kind")


@dataclass(frozen=True)
class Prepared:
    """What a run needs before its first step."""

    module: nn.Module
    task: AnyTask
    batches: Stream[Batch]
    objective: Objective
    validate: Judge
    score: Judge
    scoring: float  # how much longer `score` takes than a validation, about
    summary: str  # what is about to be trained, and on which data
    valid: object  # the examples for validation


def train(
    recipe: str | Path | Wish, *, out: str | Path | None = None, changes: Iterable[str] = (), show: bool = False
) -> Model:
    """Train what a recipe says, in the directory `out` (runs/NAME unless given); a run that was begun is resumed.

    `recipe` is the name of a bundled recipe, a TOML file, a data file (the recipe that fits it is taken) or a `Recipe`.
    `changes` are "key=value" as on the command line; `show` reports progress on standard error.
    """
    with joined():
        return _joined(recipe, out=out, changes=changes, show=show)


def _joined(recipe: str | Path | Wish, *, out: str | Path | None, changes: Iterable[str], show: bool) -> Model:
    """`train` in one of the processes that were started together."""
    crew, begin = Crew.here(), time.perf_counter()
    console = Console(stderr=True, quiet=not show or not crew.leads, highlight=False)
    wish = recipe if isinstance(recipe, Recipe) else recipes.load(recipe, changes, tell=console.out)
    name = "model" if isinstance(recipe, Recipe) else Path(recipe).stem
    path = path_of(out) if out is not None else Path("runs") / name
    chosen, body = checked(wish)
    make_run_directory(path)
    with durable.alone(path) if crew.leads else nullcontext():
        return _train(chosen, body, ModelDirectory(path), crew, console, begin=begin)


def checked(wish: Wish) -> tuple[Complete, Imported | None]:
    """The recipe with all its sizes, and its pretrained body if it names one; its task can be done by its model."""
    chosen, body = completed(wish)
    forms = tasks.task(chosen.task).forms
    if models.KINDS[chosen.kind].form not in forms:
        able = ", ".join(kind for form in forms for kind in models.kinds(form))
        raise RegardError(f'task = "{chosen.task}" is for the kinds {able}, and not for kind = "{chosen.kind}"')
    return chosen, body


def _train(
    recipe: Complete,
    body: Imported | None,
    directory: ModelDirectory,
    crew: Crew,
    console: Console,
    *,
    begin: float,
) -> Model:
    crew.first(lambda: durable.sweep(directory.path))
    begun = settle(directory, recipe, crew)
    machine.prepare(recipe.training)
    prepared = prepare(recipe, body, directory, crew, begun=begun, console=console)
    _require_same_data(directory, prepared.batches.checksum, begun=begun, crew=crew)
    begin = time.monotonic()
    needed = [name for name in (RECIPE, *TOKENIZERS, LABELS, NUMBERS) if (directory.path / name).exists()]
    console.out(prepared.summary)
    report = train_in(
        prepared.module,
        prepared.task,
        prepared.batches,
        config=recipe.training,
        directory=directory.path,
        names={"task": recipe.task, "kind": recipe.kind},
        settings=recipe.model.model_dump(mode="json"),
        width=recipe.model.width,
        objective=prepared.objective,
        validate=prepared.validate,
        score=prepared.score,
        console=console,
        crew=crew,
        timing=Timing(preparing=time.perf_counter() - begin, scoring=prepared.scoring),
    )
    if isinstance(prepared.task, Extends) and crew.leads:
        for name, content in prepared.task.files(prepared.batches, _used(recipe)).items():
            durable.write_file(directory.path / name, content)
    if missing := [name for name in needed if not (directory.path / name).is_file()]:
        raise RegardError(
            f"{directory.path} was changed while training in it: {listed(missing)} of it is missing, so there is no "
            "whole model; train again in another directory, with -o"
        )
    if crew.leads:
        _judge_forms(directory, prepared.valid, console, seconds=JUDGED * (time.monotonic() - begin))
    elsewhere = Elsewhere(directory.path, prepared.module, loaded=stamp(directory.path))
    return model_of(directory.path, recipe, prepared.module, prepared.task, report, elsewhere=elsewhere)


def _used(recipe: Complete) -> DecodingConfig:
    """The recipe's [decoding], without a shortlist that is to be measured where nothing can use one."""
    unusable = recipe.decoding.shortlist == "measured" and obstacle(
        recipe.model.model_dump(mode="json", exclude_none=True)
    )
    return recipe.decoding.model_copy(update={"shortlist": False}) if unusable else recipe.decoding


def _judge_forms(directory: ModelDirectory, valid: object, console: Console, *, seconds: float) -> None:
    """Find out whether a faster form answers as well, if that pays after a run of this length and is not known yet."""
    if seconds < WORTH or kept(directory) is not None:
        return
    with console.status("comparing faster forms of answering with float32"):
        found = judge(directory.path, examples=valid, seconds=seconds)
    console.out(not_compared(found) if isinstance(found, str) else str(found))


def prepare(
    recipe: Complete,
    body: Imported | None,
    directory: ModelDirectory,
    crew: Crew,
    *,
    begun: bool,
    console: Console,
) -> Prepared:
    """Read the data and build the model, in a directory where a run was `begun` before or not."""
    training = recipe.training
    with console.status("reading the examples") as status:
        work = Work(directory.work, Telling(console, status), crew.share)
        data = read_data(recipe, body, directory, crew, work, begun=begun)
        task, held_out = data.task, data.valid
        quick = task.quick_exam(data.splits.valid, held_out)
        whole = task.exam(data.splits.judged, RunOptions(recipe.decoding))
    device, each = machine.choose_device(training.device), TRAINED + 4 * bool(training.ema)
    if training.distribution.divides(crew.world):
        # its part, the whole model while it is judged, and all gradients while they are accumulated
        each = -(-each // crew.world) + LOADED * (1 + (training.accumulate > 1))
    require_room(task.module, recipe.model, device=device, each=each)
    torch.manual_seed(training.seed)
    module = task.module(recipe.model)
    if body is not None:
        start_from(body, module)
    module = tuned(module, training)
    return Prepared(
        module=module,
        task=task,
        batches=data.train,
        objective=data.objective,
        validate=validation(task, held_out, quick, device, crew),
        score=final(whole, console, crew),
        scoring=whole.work / max(quick.work, 1.0),
        summary=_summary(recipe, data, module),
        valid=data.splits.valid,
    )


class Telling:
    """Says how far something is: in a terminal beside the spinner, elsewhere as a plain line every few seconds."""

    FIRST, EVERY = 2.0, 10.0  # seconds before the first plain line, and between two of them

    def __init__(self, console: Console, status: Status) -> None:
        self.console, self.status, self.told = console, status, time.monotonic() + self.FIRST - self.EVERY

    def __call__(self, text: str, *, milestone: bool = False) -> None:
        self.status.update(text)
        if not self.console.is_terminal and (milestone or time.monotonic() - self.told > self.EVERY):
            self.told = time.monotonic()
            self.console.out(text)


def _summary(recipe: Complete, data: Data, module: nn.Module) -> str:
    """What is about to be trained, and on which data; printed after all data was read and checked."""
    lines = data.describe()
    parameters = [(parameter.numel(), parameter.requires_grad) for parameter in module.parameters()]
    size, learning = sum(number for number, _ in parameters), sum(number for number, learns in parameters if learns)
    some = f", of which {learning:,} learn" if learning < size else ""
    return "\n".join([*lines, f"model: {recipe.kind}, {size:,} parameters{some}"])


def settle(directory: ModelDirectory, recipe: Complete, crew: Crew) -> bool:
    """Write the recipe into the directory, and return whether a run was begun there before."""
    begun = require_same(directory, recipe)
    if not begun or not (directory.path / RECIPE).exists():
        recipe.refuse_ignored()
    crew.first(lambda: durable.write_file(directory.path / RECIPE, recipe.to_toml().encode()))
    return begun


def require_same(directory: ModelDirectory, recipe: Complete) -> bool:
    """Whether a run was begun in a directory; it must have the same recipe, except for the keys in `CHANGEABLE`."""
    stored = directory.path / RECIPE
    begun = (directory.path / WEIGHTS).exists() or bool(Checkpoints(directory.work).steps())
    if begun and stored.exists():
        changed = recipes.differences(recipes.load(stored), recipe, except_for=CHANGEABLE)
        if changed:
            raise RegardError(
                f"{directory.path} was trained with another recipe ({'; '.join(changed)}); "
                "choose another directory with -o, or undo the change"
            )
    return begun


def make_run_directory(path: Path) -> None:
    try:
        durable.make_directory(path)
    except RegardError as error:
        raise RegardError(f"{error}; or choose another directory with -o") from None


def _require_same_data(directory: ModelDirectory, checksum: str, *, begun: bool, crew: Crew) -> None:
    """Refuse to resume a run on other data. The content is compared, and not the path or time of the files."""
    note = directory.work / "learned-from.json"
    known = _checksum_in(note)
    if crew.agree(known == checksum):  # the leading process may have written it before another one reads it
        return
    if crew.agree(begun and known is not None):
        raise RegardError(
            f"{directory.path} was trained on other data than data.train has now; choose another directory with -o, "
            "or put the file back as it was"
        )

    def write() -> None:
        durable.make_directory(note.parent)
        durable.write_file(note, json.dumps(checksum).encode())

    crew.first(write)


def _checksum_in(note: Path) -> str | None:
    """The checksum of the data that a run began with; None if there is no file, or if it is damaged."""
    if not note.exists():
        return None
    try:
        known = json.loads(note.read_bytes())
    except (OSError, ValueError, RecursionError):
        known = None
    if isinstance(known, str):
        return known
    warnings.warn(f"{note} is damaged and is written again; whether the data has changed is not known", stacklevel=2)
    return None
