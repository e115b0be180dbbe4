"""Progress of a run: steps, loss, speed and time left, as a bar in a terminal and as plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from torch import Tensor

from regard.training.run import Run

FEW_STEPS = 10  # with validations closer than this, one is told whenever a line is shown, and not each of them
RECENT_STEPS = 50  # speed and loss are those of this many last steps: one batch alone has texts of one length


class Progress:
    """A watcher, used as a context manager. In a file or a pipe it prints one line every `every` seconds, not a bar."""

    def __init__(self, *, console: Console | None = None, every: float = 10.0) -> None:
        self.console = console or Console(stderr=True)
        self.every = every if not self.console.is_terminal else 0.25
        self.bar = Bar(
            TextColumn("step {task.completed:,}/{task.total:,}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[figures]}"),
            console=self.console,
            expand=True,
            disable=not self.console.is_terminal,
        )
        self.line = self.bar.add_task("training", total=None, visible=False, figures="")
        self.laps: deque[tuple[int, float]] = deque(maxlen=RECENT_STEPS)
        self.losses: deque[tuple[float | Tensor, int]] = deque(maxlen=RECENT_STEPS)  # of a step, and its targets
        self.first: tuple[int, float] | None = None
        self.shown = -self.every
        self.step = 0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, run: Run) -> None:
        now = time.monotonic()
        if run.validated() and (run.config.validate_every >= FEW_STEPS or now - self.shown >= self.every):
            self._say(validation(run))
        if run.step == self.step:  # the end of the run was validated after its last step was shown
            return
        self.step = run.step
        self.first = self.first or (run.step, now)
        self.laps.append((run.tokens, run.learning_seconds))
        self.losses.append((run.loss, run.targets))
        if now - self.shown < self.every and run.step < run.config.steps:
            return
        self.shown = now
        unit = getattr(run.batches, "unit", "tokens")
        speed = f"{self.speed():,.0f}" if len(self.laps) > 1 else "…"
        pace = f"{speed} {unit}/s  rate {run.learning_rate:.2e}  {self.left(run, now)}"
        skipped = f"{run.skipped} skipped  " if run.skipped else ""
        figures = f"loss {self.loss():.3f}  {_latest(run)}{skipped}{pace}"
        self.bar.update(self.line, completed=run.step, total=run.config.steps, visible=True, figures=figures)
        if not self.console.is_terminal:
            self._say(f"step {run.step:,}/{run.config.steps:,}  {figures}")

    def loss(self) -> float:
        """The mean loss per target of the last steps: Σ loss · targets / Σ targets."""
        targets = sum(number for _, number in self.losses)
        return float(sum(loss * number for loss, number in self.losses)) / max(targets, 1)

    def speed(self) -> float:
        """Targets per second of learning, lately."""
        tokens, seconds = (last - first for first, last in zip(self.laps[0], self.laps[-1], strict=True))
        return tokens / seconds if seconds else 0.0

    def left(self, run: Run, now: float) -> str:
        """Time to the end at the pace of this sitting, validations included."""
        first_step, first_time = self.first or (run.step, now)
        if run.step == first_step:
            return "…"
        seconds = (run.config.steps - run.step) * (now - first_time) / (run.step - first_step)
        if run.config.minutes is not None and run.plan is None:
            seconds = min(seconds, max(60 * run.config.minutes - run.preparing - run.seconds, 0.0))
        hours, rest = divmod(round(seconds), 3600)
        return (f"{hours}:" if hours else "") + f"{rest // 60:02d}:{rest % 60:02d} left"

    def _say(self, line: str) -> None:
        self.bar.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _latest(run: Run) -> str:
    """The score that checkpoints are ranked by, at the last validation, if there was one."""
    if not run.validations:
        return ""
    latest, name = run.validations[-1], run.objective.name
    return f"validation {name} {latest[name]:.4g}  "


def validation(run: Run) -> str:
    """The last validation as one line."""
    scores = "  ".join(f"{name} {score:.4g}" for name, score in run.validations[-1].items() if name != "step")
    return f"step {run.step:,}  validation  {scores}" + ("  (best so far)" if run.is_best() else "")
