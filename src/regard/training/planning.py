"""The watcher that plans a run with a budget of minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from regard.training.config import TrainingConfig
from regard.training.distribution import Crew
from regard.training.plan import Plan
from regard.training.run import Run
from regard.training.watchers import Validation

UNUSUAL = 2  # first steps of a sitting, which are slower than others
MEASURED_STEPS, MEASURED_SECONDS, MEASURED_SHARE = 3, 10.0, 0.03  # steps; seconds, or this share of the budget
LATE = 0.1  # the share of the budget after which a plan is made from whatever was measured
LOOKS = 20  # how often a plan is compared with the clock, beside each validation
TOLERANCE = 0.03  # the share of the budget by which a run may end too early or too late
LANDING = 50  # a plan that is late still takes a fiftieth of its steps to fall to the lowest rate
ENDING = 6  # steps that the end of a run takes about as long as: the last checkpoint, means and figures


@dataclass(frozen=True)
class Timing:
    """What a plan must know of the time outside of the loop."""

    clock: Callable[[], float] = time.perf_counter
    preparing: float = 0.0  # seconds that this sitting took before its first step
    scoring: float = 1.0  # how much longer the final scoring takes than a validation


@dataclass(frozen=True)
class Mark:
    """Where measuring began: the step, the seconds of the run, and how many validations there were."""

    step: int
    seconds: float
    validations: int


class Planner:
    """Plans after the first seconds of a run, and compares the plan with the clock after each validation and at every
    twentieth of the steps. It must come before `Validation` in the order of watchers.

    What counts: data that was prepared, steps, checkpoints, validations, and the final scoring, which takes `scoring`
    times as long as a validation. Of several processes, the clock of the leading one decides for all.
    """

    def __init__(
        self,
        config: TrainingConfig,
        *,
        validation: Validation | None = None,
        scoring: float = 1.0,
        crew: Crew | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        assert config.minutes is not None
        self.config, self.budget, self.validation = config, 60 * config.minutes, validation
        self.scoring, self.crew, self.tell = scoring, crew or Crew(), tell
        self.calls, self.looked = 0, 0
        self.mark: Mark | None = None

    def __call__(self, run: Run) -> None:
        self.calls += 1
        if self.calls == UNUSUAL:
            self.mark = Mark(run.step, run.seconds, len(self._pauses()))
        if run.plan is None or not run.plan.is_for(self.config):
            if self.crew.agree(self._measured(run)):
                self._begin(run)
        elif self._due(run):
            self._revise(run)

    def _pauses(self) -> list[float]:
        return self.validation.seconds if self.validation else []

    def _spent(self, run: Run) -> float:
        """All seconds before this step."""
        return run.preparing + run.seconds

    def _measured(self, run: Run) -> bool:
        """Whether the pace is known, or can wait no longer."""
        if self._spent(run) + run.learning_seconds / run.step > LATE * self.budget:
            return True
        if self.mark is None or run.step - self.mark.step < MEASURED_STEPS:
            return False
        return run.seconds - self.mark.seconds >= min(MEASURED_SECONDS, MEASURED_SHARE * self.budget)

    def _pace(self, run: Run) -> float:
        """Seconds of a step and what belongs to it, without validations."""
        if self.mark is None or run.step == self.mark.step:
            return run.learning_seconds / run.step
        pauses = sum(self._pauses()[self.mark.validations :])
        return (run.seconds - self.mark.seconds - pauses) / (run.step - self.mark.step)

    def _fitting(self, run: Run) -> int:
        """The last step if the run is to end in time, scores included."""
        pace, pause = max(self._pace(run), 1e-9), self._pauses()[-1] if self._pauses() else 0.0
        every = run.config.validate_every
        left = self.budget - self._spent(run) - (1 + self.scoring) * pause - ENDING * pace
        return min(run.step + max(int(left / (pace + (pause / every if every else 0.0))), 0), self.config.steps)

    def _begin(self, run: Run) -> None:
        steps = self.crew.gathered(self._fitting(run))[0]
        run.plan = Plan.made(self.config, step=run.step, steps=steps, before=run.plan)
        run.config = run.plan.applied(self.config)
        self.looked = len(self._pauses())
        all_fit = f", all that training.steps allows, in less than {self.config.minutes:g} minutes"
        fit = all_fit if steps == self.config.steps else f" in {self.config.minutes:g} minutes"
        validating = f"; validation every {run.plan.validate_every:,} steps" if run.plan.validate_every else ""
        self.tell(
            f"plan: {steps:,} steps{fit}, {_short(self._pace(run))} each; {run.plan.warmup:,} steps of warm-up, then "
            f"the rate falls to {self.config.lowest_rate:g} ({self.config.schedule}){validating}"
        )

    def _due(self, run: Run) -> bool:
        """Whether to compare the plan with the clock; it never looks twice at the step that the plan was made at."""
        assert run.plan is not None
        validated, self.looked = len(self._pauses()) > self.looked, len(self._pauses())
        regular = run.step % max(run.plan.steps // LOOKS, 1) == 0
        return (validated or regular) and run.plan.knots[-1].step < run.step < run.plan.steps

    def _revise(self, run: Run) -> None:
        assert run.plan is not None
        before = run.plan.steps
        steps = self.crew.gathered(self._revised(run, before))[0]
        if steps == before:
            return
        run.plan = run.plan.changed(step=run.step, steps=steps)
        run.config = run.plan.applied(self.config)
        pause = f", {_short(self._pauses()[-1])} for a validation" if self._pauses() else ""
        self.tell(f"plan: {steps:,} steps instead of {before:,}, {_short(self._pace(run))} each{pause}")

    def _revised(self, run: Run, planned: int) -> int:
        """The last step as the clock has it; the planned one if the difference is small."""
        pace = self._pace(run)
        if self.mark is None or run.step - self.mark.step < MEASURED_STEPS:
            return planned
        steps = min(max(self._fitting(run), run.step + max(planned // LANDING, 1)), self.config.steps)
        return steps if abs(steps - planned) * pace > TOLERANCE * self.budget else planned


def _short(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 0.1 else f"{1000 * seconds:.2g} ms"
