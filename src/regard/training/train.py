"""The door: from a model, a task and batches to a model directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import safetensors.torch
from rich.console import Console
from torch import nn

from regard import durable
from regard.data.streams import Batch, Stream
from regard.errors import RegardError
from regard.kernels.linear import set_products
from regard.tasks.base import Objective
from regard.training import curve, machine, optimiser, randomness, report, schedule, watchers
from regard.training.averaging import MovingAverage
from regard.training.checkpoint import Checkpoints, load_weights, to_bytes, weights_of
from regard.training.config import TrainingConfig
from regard.training.distribution import Crew
from regard.training.learner import Loss
from regard.training.loop import Watcher, fit
from regard.training.progress import Progress
from regard.training.run import Run
from regard.training.validation import Judge

WEIGHTS, REPORT = "weights.safetensors", "report.json"
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
    width: int | None = None,
    objective: Objective | None = None,
    validate: Judge | None = None,
    score: Judge | None = None,
    console: Console | None = None,
    crew: Crew | None = None,
) -> dict[str, Any]:
    """Train a model in a directory, from where it was left if it was; return the report, and the model ready to use.

    `names` holds the `task` and the `kind` for the report. `validate` gives scores while training, `objective` says
    which of them ranks checkpoints, `score` (otherwise `validate`) judges the final weights. Writes
    weights.safetensors, curve.png and, last, report.json: then the run is finished, and calling again changes nothing
    unless there are steps to go. Raises `Interrupted` after Ctrl-C.
    """
    device = machine.prepare(config)
    model.to(device)
    precision = machine.choose_precision(config.precision, device)
    if device.type == "cpu":
        set_products(model, precision)
    run = Run(
        model=model,
        optimiser=optimiser.build(model, config),
        batches=batches,
        config=config,
        objective=objective or Objective(),
        moving=MovingAverage(model, decay=config.ema) if config.ema else None,
        precision=precision,
    )
    checkpoints = Checkpoints(directory / "checkpoints")
    randomness.seed(config.seed)
    resumed = checkpoints.resume(run)
    if not _finished(directory, run):
        if resumed and console:
            console.out(f"resuming from step {run.step:,}")
        with ExitStack() as stack:
            interruption = stack.enter_context(watchers.Interruption(checkpoints))
            watching = _watchers(run, checkpoints, stack=stack, validate=validate, console=console)
            fit(run, task, schedule=schedule.build(config, width=width), watchers=[*watching, interruption], crew=crew)
            if checkpoints.newest != run.step or config.minutes:  # a resumed run must see that its minutes are used up
                checkpoints.save(run)
            interruption(run)
        _conclude(run, task, checkpoints, directory=directory, names=names, score=score or validate)
    elif console:
        console.out(f"nothing is left to do: {run.ending()}; raise {', '.join(LIMITS)}, or choose another directory")
    checkpoints.finish(run)
    load_weights(model, safetensors.torch.load_file(directory / WEIGHTS), origin=directory / WEIGHTS)
    model.eval()
    return _read_report(directory)


def _watchers(
    run: Run,
    checkpoints: Checkpoints,
    *,
    stack: ExitStack,
    validate: Judge | None,
    console: Console | None,
) -> list[Watcher]:
    """In their order: what a later one shows or saves, an earlier one has computed."""
    chosen: list[Watcher] = [watchers.update_moving_average, watchers.record]
    if validate:
        chosen.append(watchers.Validation(validate))
    if run.config.tensorboard:
        logs = checkpoints.directory.with_name("tensorboard")
        chosen.append(stack.enter_context(watchers.TensorBoard(logs, step=run.step)))
    chosen.append(stack.enter_context(Progress(console=console)))
    chosen.append(watchers.Saving(checkpoints))
    return chosen


def _conclude(
    run: Run,
    task: Loss[Batch],
    checkpoints: Checkpoints,
    *,
    directory: Path,
    names: Mapping[str, str],
    score: Judge | None,
) -> None:
    """Write what the run was for. The report comes last, because it says that the rest is there."""
    load_weights(run.model, checkpoints.final_weights(run), origin=checkpoints.directory)
    durable.write_file(directory / WEIGHTS, to_bytes(weights_of(run.model)))
    scores = watchers.judge(run, score) if score else {}
    batches = run.batches.stream(epoch=run.epoch, position=run.position)
    cost = report.flops_per_target(run.model, task, islice(batches, FLOP_BATCHES))
    title = f"{names['task']} · {names['kind']}"
    picture = curve.draw(run.history, run.validations, objective=run.objective, title=title)
    durable.write_file(directory / "curve.png", picture)
    whole = report.build(run, task=names["task"], kind=names["kind"], scores=scores, flops_per_target=cost)
    durable.write_file(directory / REPORT, report.dump(whole))


def _finished(directory: Path, run: Run) -> bool:
    """Whether all was done before: the run has ended where its report says."""
    if not (directory / REPORT).exists():
        return False
    if not run.step:
        raise RegardError(
            f"{directory} holds a finished model and no checkpoint to go on from; "
            "choose another directory, or delete this one to train anew"
        )
    return bool(run.ending()) and _read_report(directory)["steps"] == run.step


def _read_report(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / REPORT).read_bytes())
    return found
