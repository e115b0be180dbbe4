"""Watchers of the training loop: each is called after every step, in the order that `train.py` lists them."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch

from regard.durable import DiskFullError
from regard.errors import RegardError
from regard.kernels.allocator import give_back
from regard.tasks.base import Score
from regard.training.checkpoint import Checkpoints
from regard.training.distribution import Crew
from regard.training.run import Run
from regard.training.validation import Judge

SLOW = 10.0  # seconds for a checkpoint
GIVE_BACK_EVERY = 100  # steps: the pages that are taken anew cost less than a thousandth of the time
AGAIN = 75  # EX_TEMPFAIL, an exit code that asks whoever started the run to start it again


def update_moving_average(run: Run) -> None:
    if run.moving:
        run.moving.update(run.model, run.step)


def give_memory_back(run: Run) -> None:
    if run.step % GIVE_BACK_EVERY == 0:
        give_back()


def record(run: Run) -> None:
    """A point of the learning curve, every `record_every` steps: the mean loss since the last one, rate and speed."""
    run.recent = run.recent + run.loss
    if run.step % run.config.record_every:
        return
    before = run.history[-1] if run.history else {"tokens": 0, "learning_seconds": 0.0}
    seconds = run.learning_seconds - before["learning_seconds"]
    run.history.append(
        {
            "step": run.step,
            "loss": float(run.recent) / run.config.record_every,
            "learning_rate": run.learning_rate,
            "tokens": run.tokens,
            "skipped": run.skipped,
            "learning_seconds": run.learning_seconds,
            "tokens_per_second": (run.tokens - before["tokens"]) / seconds if seconds else 0.0,
        }
    )
    run.recent = 0.0


class Validation:
    """The task's scores on data not learned from, every `validate_every` steps.

    Validating draws no random numbers from training, so that doing it more or less often trains the same model.
    """

    def __init__(self, validate: Judge, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.validate, self.clock = validate, clock
        self.seconds: list[float] = []  # that each validation of this sitting took

    def __call__(self, run: Run) -> None:
        if run.config.validate_every and run.step % run.config.validate_every == 0:
            self.now(run)

    def now(self, run: Run) -> None:
        """Validate this step."""
        begin = self.clock()
        with torch.random.fork_rng([run.device] if run.device.type == "cuda" else []), run.averaged():
            scores = {name: score.value for name, score in judge(run, self.validate).items()}
        if run.objective.name not in scores:
            there = ", ".join(scores)
            raise RegardError(f'there is no score "{run.objective.name}" to compare models by; there is {there}')
        run.validations.append({"step": run.step, **scores})
        self.seconds.append(self.clock() - begin)


def judge(run: Run, validate: Judge) -> Mapping[str, Score]:
    """Scores of the model in evaluation mode, without gradients; it is left in training mode."""
    with torch.no_grad(), run.autocast(), run.gathered() as model:
        scores = validate(model.eval())
    run.model.train()
    return scores


def save(checkpoints: Checkpoints, run: Run) -> None:
    """Save a checkpoint, and warn if that takes so long that it may not end in time after a signal."""
    begin = time.monotonic()
    checkpoints.save(run)
    seconds = time.monotonic() - begin
    if checkpoints.crew.leads and seconds > SLOW:
        warnings.warn(
            f"saving step {run.step} took {seconds:.0f} seconds; schedulers often kill a run 30 seconds after they ask "
            f"it to stop, so train in a directory on a faster disk than that of {checkpoints.directory}",
            stacklevel=2,
        )


class Saving:
    """A checkpoint every `checkpoint_every` steps, whenever validation was never better, and whenever the run was
    planned, so that a resumed run has the same plan.

    If the disk is full, the run continues without a checkpoint of that step, and tries again at the next.

    Where the best step is one of many in a few seconds, its weights are held in memory until the next checkpoint. A run
    that is killed before repeats these steps, with the same result.
    """

    EVERY = 10.0  # seconds between two checkpoints of best steps

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self.saved = -self.EVERY  # seconds of the run

    def __call__(self, run: Run) -> None:
        planned = run.plan is not None and run.plan.knots[-1].step == run.step
        regular, best = planned or run.step % run.config.checkpoint_every == 0, run.is_best()
        if best and not regular and self._soon(run):
            self.checkpoints.hold(run)
        elif best or regular:
            self._save(run, best)
            self.saved = run.seconds

    def _soon(self, run: Run) -> bool:
        """Whether the last checkpoint is so young that the next best step is only held, by the leading clock."""
        return run.config.average == 1 and self.checkpoints.crew.agree(run.seconds - self.saved < self.EVERY)

    def _save(self, run: Run, best: bool) -> None:
        try:
            save(self.checkpoints, run)
        except DiskFullError as error:
            if best:
                self.checkpoints.hold(run)
            warnings.warn(
                f"{error.reason}; earlier checkpoints are intact; free some space: the run continues, and saves again "
                "at its next checkpoint",
                stacklevel=2,
            )


class TensorBoard:
    """The curve and the validations as TensorBoard's event files."""

    def __init__(self, directory: Path, *, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RegardError(
                'tensorboard=true needs a package that is missing: pip install "regard[tensorboard]", or set false'
            ) from error
        self.writer = SummaryWriter(str(directory), purge_step=step + 1)

    def __call__(self, run: Run) -> None:
        if run.history and run.history[-1]["step"] == run.step:
            for name in ("loss", "tokens_per_second", "learning_rate"):
                self.writer.add_scalar(f"train/{name}", run.history[-1][name], run.step)
        if run.validated():
            for name, score in run.validations[-1].items():
                if name != "step":
                    self.writer.add_scalar(f"valid/{name}", score, run.step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()


class Interrupted(KeyboardInterrupt):
    """The run was asked to stop, and everything is saved; the message says how to resume.

    The exit code is `AGAIN` after a signal by which a scheduler takes a machine back, and if one process of several
    lacks memory. After Ctrl-C it is 130.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Interruption:
    """A context manager for Ctrl-C, SIGTERM and SIGUSR1: the run finishes its step, saves a checkpoint and stops.

    If any of several processes is asked, all stop after the same step. A second signal acts as it does elsewhere: at
    once. A terminal, systemd or SLURM may send a signal to a process and to the one that started it, which passes it
    on: what comes within `TWICE` seconds is the same signal. Outside the main thread, where Python delivers no signals,
    nothing happens.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    TWICE = 1.0

    def __init__(self, checkpoints: Checkpoints, crew: Crew | None = None) -> None:
        self.checkpoints, self.crew = checkpoints, crew or Crew()
        self.asked = 0  # the number of the signal
        self.moment = 0.0  # when it came
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self._ask) for number in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def __call__(self, run: Run) -> None:
        asked = self.crew.largest(self.asked)
        if not asked:
            return
        if self.checkpoints.newest != run.step:
            save(self.checkpoints, run)
        raise Interrupted(
            f"stopped at step {run.step} of {run.config.steps}; all is saved in {self.checkpoints.directory.parent}; "
            "run the same command to resume",
            code=130 if asked == signal.SIGINT else AGAIN,
        )

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is Python's
        if self.asked:
            if time.monotonic() - self.moment > self.TWICE:
                self.__exit__()
                signal.raise_signal(number)
            return
        self.asked, self.moment = number, time.monotonic()
        os.write(2, b"\nfinishing this step and saving; once more to stop at once\n")
