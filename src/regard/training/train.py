"""From a model, a task and batches to a model directory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from rich.console import Console
from torch import nn

from regard import durable
from regard.data.streams import Batch, Laned, Stream
from regard.directory import CHECKPOINTS, CURVE, REPORT, WEIGHTS, ModelDirectory, Note, read_note
from regard.errors import RegardError
from regard.kernels.linear import set_products
from regard.tasks.base import Objective, Remembers
from regard.training import curve, faults, machine, optimiser, randomness, report, schedule, watchers
from regard.training.averaging import MovingAverage
from regard.training.checkpoint import Checkpoints
from regard.training.config import TrainingConfig
from regard.training.distribution import Crew
from regard.training.flops import flops_per_target
from regard.training.learner import Loss
from regard.training.loop import Watcher, fit
from regard.training.planning import Planner, Timing
from regard.training.progress import Progress
from regard.training.run import Run
from regard.training.sharding import Shards
from regard.training.validation import Judge
from regard.training.weights import load_weights, require_fit, to_bytes, weights_of

LIMITS = ("training.steps", "training.minutes", "training.patience")  # how long a run lasts
FLOP_BATCHES = 3  # batches on which the cost of learning is counted


def train(
    model: nn.Module,
    task: Loss[Batch],
    batches: Stream[Batch],
    *,
    config: TrainingConfig,
    directory: Path,
    names: Mapping[str, str],
    settings: Mapping[str, JsonValue] | None = None,
    width: int | None = None,
    objective: Objective | None = None,
    validate: Judge | None = None,
    score: Judge | None = None,
    console: Console | None = None,
    crew: Crew | None = None,
    timing: Timing | None = None,
) -> dict[str, Any]:
    """Train a model in a directory, or resume its training there; return the report, and the model ready to use.

    `names` holds the `task` and the `kind` for the report, `settings` the [model] that is noted beside the weights.
    `validate` gives scores while training and for the last step, `objective` says which of them ranks checkpoints,
    `score` (otherwise `validate`) judges the final weights. Writes weights.safetensors, curve.png and, last,
    report.json: then the run is finished, and calling again changes nothing unless steps are left or one of these files
    is damaged. Raises `Interrupted` after Ctrl-C.
    """
    device = machine.prepare(config)
    model.to(device)
    precision = machine.choose_precision(config.precision, device)
    if device.type == "cpu":
        set_products(model, precision)
    crew, timing = crew or Crew(), timing or Timing()
    divided = config.distribution.divides(crew.world)
    shards = Shards(model, task, rank=crew.rank, world=crew.world) if divided else None
    learning = shards.model if shards else model
    run = Run(
        model=learning,
        optimiser=optimiser.build(learning, config),
        batches=batches,
        config=config,
        objective=objective or Objective(),
        moving=MovingAverage(learning, decay=config.ema) if config.ema else None,
        precision=precision,
        remembers=task if isinstance(task, Remembers) and isinstance(batches, Laned) else None,
        shards=shards,
    )
    if shards:
        shards.leave_unused(run.optimiser)
    checkpoints = Checkpoints(directory / CHECKPOINTS, crew)
    randomness.seed(config.seed)
    resumed = crew.in_turn(lambda: checkpoints.resume(run))
    run.parts = crew.largest(max(run.parts, faults.noted_parts(checkpoints.directory)))
    run.preparing += timing.preparing
    _continue_plan(run)
    if not _finished(directory, run):
        if resumed and console:
            console.out(f"resuming from step {run.step:,}")
        with ExitStack() as stack:
            interruption = stack.enter_context(watchers.Interruption(checkpoints, crew))
            validation = (
                watchers.Validation(validate, clock=timing.clock) if validate and config.validate_every else None
            )
            telling = _telling(run, directory, stack=stack, console=console) if crew.leads else []
            planning = _planning(config, validation, timing, crew, console)
            watching = _in_order(planning, validation, telling, checkpoints)
            rates = _rates(run, config, width)
            try:
                with machine.explaining_memory():
                    everyone: list[Watcher] = [*watching, interruption]
                    fit(run, task, schedule=rates, watchers=everyone, crew=crew, clock=timing.clock)
            except faults.LacksMemoryError as lack:
                raise _with_more_parts(lack.parts, checkpoints) from None
            except faults.StoppedError as stop:
                raise _stopped(stop, run, task, checkpoints, crew) from stop
            validated = run.validated() or validation is None
            if validation and not validated:  # without this the last step could not be chosen
                validation.now(run)
                for tell in telling:
                    tell(run)
            if checkpoints.newest != run.step or not validated:
                watchers.save(checkpoints, run)
            interruption(run)
        run.merge()
        note = Note(model=dict(settings or {}), ended=run.step, files=ModelDirectory(directory).tokenizer_sums())
        kept = _conclude(
            run, task, checkpoints, crew, directory=directory, names=names, note=note, score=score or validate
        )
        if console and crew.leads:
            console.out(kept)
    elif console:
        console.out(f"nothing is left to do: {run.ending()}; raise {', '.join(LIMITS)}, or choose another directory")
    run.merge()
    crew.first(lambda: checkpoints.finish(run))
    load_weights(model, ModelDirectory(directory).weights(), origin=directory / WEIGHTS)
    model.eval()
    return ModelDirectory(directory).report()


def _continue_plan(run: Run) -> None:
    """Let a run that was planned go on as planned, unless its limits are others now."""
    if run.config.minutes is None:
        run.plan = None
    elif run.plan and run.plan.is_for(run.config):
        run.config = run.plan.applied(run.config)


def _rates(run: Run, config: TrainingConfig, width: int | None) -> schedule.Schedule:
    """The rate of each step: that of the recipe, until the run is planned."""
    free = schedule.build(config, width=width)
    return lambda step: schedule.under(run.plan, config, width=width)(step) if run.plan else free(step)


def _planning(
    config: TrainingConfig,
    validation: watchers.Validation | None,
    timing: Timing,
    crew: Crew,
    console: Console | None,
) -> list[Watcher]:
    """The watcher that plans a run with a budget of minutes."""
    if config.minutes is None:
        return []
    tell = console.out if console and crew.leads else lambda _: None
    return [Planner(config, validation=validation, scoring=timing.scoring, crew=crew, tell=tell)]


def _with_more_parts(parts: int, checkpoints: Checkpoints) -> watchers.Interrupted:
    """The end of one of several processes that lacks memory; those that are started next need less."""
    with suppress(RegardError):  # another process is writing the same
        faults.note_parts(checkpoints.directory, parts)
    return watchers.Interrupted(
        f"there is not enough memory for a step; run the same command to resume with each batch divided into {parts} "
        "parts, which takes longer and gives the same gradient; to avoid this, lower training.batch_tokens or "
        "training.batch_size",
        code=watchers.AGAIN,
    )


def _stopped(
    stop: faults.StoppedError, run: Run, task: Loss[Batch], checkpoints: Checkpoints, crew: Crew
) -> RegardError:
    """What to say of a run that cannot continue, after its last step is saved, and the batches that it cannot learn."""
    said = [str(stop)]
    try:
        if run.step:
            watchers.save(checkpoints, run)
            said.append(f"step {run.step} is saved; run the same command to resume after it")
        if isinstance(stop, faults.NotFiniteError):
            place = checkpoints.directory.parent / f"not-learned-{crew.rank}"
            faults.write_batches(place, stop.batches, task)
            said.append(f"{place}.json and {place.name}.safetensors show the batches")
    except durable.DiskFullError as full:
        said.append(str(full))
    return RegardError("; ".join(said))


def _telling(run: Run, directory: Path, *, stack: ExitStack, console: Console | None) -> list[Watcher]:
    """The watchers that show to people what others have computed."""
    progress = stack.enter_context(Progress(console=console))
    if not run.config.tensorboard:
        return [progress]
    return [stack.enter_context(watchers.TensorBoard(directory / "tensorboard", step=run.step)), progress]


def _in_order(
    planning: Sequence[Watcher],
    validation: watchers.Validation | None,
    telling: Sequence[Watcher],
    checkpoints: Checkpoints,
) -> list[Watcher]:
    """The watchers of a run: a later one shows or saves what an earlier one has computed."""
    judging = [validation] if validation else []
    first = [watchers.update_moving_average, watchers.give_memory_back, watchers.record]
    return [*first, *planning, *judging, *telling, watchers.Saving(checkpoints)]


def _conclude(
    run: Run,
    task: Loss[Batch],
    checkpoints: Checkpoints,
    crew: Crew,
    *,
    directory: Path,
    names: Mapping[str, str],
    note: Note,
    score: Judge | None,
) -> str:
    """Write the results; return a sentence that says which steps the weights are from.

    The report is written last: if it is there, so is everything else.
    """

    def write_weights() -> None:
        load_weights(run.model, checkpoints.final_weights(run), origin=checkpoints.directory)
        whole = note.model_copy(update={"kept": checkpoints.kept})
        durable.write_file(directory / WEIGHTS, to_bytes(weights_of(run.model), whole))

    if not crew.agree(bool(_written(directory, run))):
        crew.first(write_weights)
    kept = _written(directory, run)
    load_weights(run.model, ModelDirectory(directory).weights(), origin=directory / WEIGHTS)
    scores = watchers.judge(run, score) if score else {}
    if not crew.leads:
        crew.first(lambda: None)
        return ""
    batches = islice(run.batches.stream(epoch=run.epoch, position=run.position), FLOP_BATCHES)
    cost = flops_per_target(run.model, task, (part for batch in batches for part in batch.divided(run.parts)))
    title = f"{names['task']} · {names['kind']}"
    picture = curve.draw(run.history, run.validations, objective=run.objective, best=run.best(), title=title)
    durable.write_file(directory / CURVE, picture)
    whole = report.build(run, task=names["task"], kind=names["kind"], kept=kept, scores=scores, flops_per_target=cost)
    crew.first(lambda: durable.write_file(directory / REPORT, report.dump(whole)))
    return report.explain_kept(run, kept)


def _written(directory: Path, run: Run) -> list[int]:
    """The steps whose mean weights.safetensors holds, if it holds the final weights of this very step; else none.

    Checkpoints that were averaged are gone once a run is finished, so such weights are not computed again.
    """
    try:
        require_fit(run.model, ModelDirectory(directory).weights(), origin=directory / WEIGHTS)
        note = read_note(directory / WEIGHTS)
    except RegardError:
        return []
    return note.kept if note.ended == run.step else []


def _finished(directory: Path, run: Run) -> bool:
    """Whether all was done before: the run has ended where its report says, and its weights can be read.

    Files that are damaged are written again from the checkpoints.
    """
    if not (directory / REPORT).exists():
        return False
    if not run.step:
        raise RegardError(
            f"{directory} holds a finished model and no checkpoint to resume from; "
            "choose another directory, or delete this one to train anew"
        )
    stored = ModelDirectory(directory)
    try:
        require_fit(run.whole, stored.weights(), origin=directory / WEIGHTS)
        return bool(run.ending()) and stored.report().get("steps") == run.step
    except RegardError as damage:
        reason = str(damage).partition(";")[0]
        warnings.warn(f"{reason}; it is written again from the checkpoint of step {run.step}", stacklevel=2)
        return False
