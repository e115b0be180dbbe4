"""A plan: how many steps fit into the minutes of a run, and how fast the rate falls until then.

    progress(t) = p_k + (1 − p_k) · (t − s_k) / (T_k − s_k)        of the fall, from 0 after the warm-up to 1

A plan is made once, after the first steps. Where a run turns out faster or slower, a knot k is added: from step s_k on,
the rest of the fall, 1 − p_k, takes until step T_k, so that the rate has no jumps. All knots are in the checkpoints,
and progress is a function of knots and step alone: a resumed run has the rates of an uninterrupted one.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from regard.training.config import TrainingConfig

VALIDATIONS = 5  # at least, where a recipe validates
WARMUP_SHARE = 5  # the warm-up takes at most a fifth of the steps

Step = Annotated[int, Field(ge=0, lt=10**8)]
Positive = Annotated[int, Field(ge=1, lt=10**8)]


class Knot(BaseModel):
    """From the step after `step` on, the rest of the fall takes until step `steps`."""

    step: Step
    progress: Annotated[float, Field(ge=0, le=1)]
    steps: Step


class Plan(BaseModel):
    """What was decided for the minutes of a run."""

    minutes: Annotated[float, Field(gt=0)]
    most: Positive  # training.steps of the recipe
    warmup: Step
    validate_every: Step
    checkpoint_every: Positive
    knots: Annotated[list[Knot], Field(min_length=1)]

    @classmethod
    def made(cls, config: TrainingConfig, *, step: int, steps: int, before: Plan | None = None) -> Plan:
        """A plan that is made at a step, for so many; `before` was one for other minutes."""
        validate, save = config.validate_every, config.checkpoint_every
        if validate:
            validate = min(validate, max(steps // VALIDATIONS, 1))
            together = config.average_of == "best"  # each checkpoint is validated
            save = validate * (max(save // config.validate_every, 1) if together else 1)
        warmup = min(config.warmup, max(steps // WARMUP_SHARE, 1)) if before is None else before.warmup
        learned = 0.0 if before is None else min(max(step - warmup, 0) / max(steps - warmup, 1), 1.0)
        return cls(
            minutes=config.minutes or 0.0,
            most=config.steps,
            warmup=warmup,
            validate_every=validate,
            checkpoint_every=min(save, config.checkpoint_every),
            knots=[*(before.knots if before else []), Knot(step=step, progress=learned, steps=steps)],
        )

    @property
    def begin(self) -> int:
        """The last step before the plan was made."""
        return self.knots[0].step

    @property
    def steps(self) -> int:
        """The last step of all."""
        return self.knots[-1].steps

    def is_for(self, config: TrainingConfig) -> bool:
        """Whether the plan is for the limits that a recipe has now."""
        return (self.minutes, self.most) == (config.minutes, config.steps)

    def progress(self, step: int) -> float:
        """How much of the fall is made at a step."""
        knot = next((each for each in reversed(self.knots) if each.step < step), self.knots[0])
        begin = max(knot.step, self.warmup)
        share = min(max(step - begin, 0) / max(knot.steps - begin, 1), 1.0)
        return min(knot.progress + (1 - knot.progress) * share, 1.0)

    def changed(self, *, step: int, steps: int) -> Plan:
        """The same plan with another end, decided at a step."""
        knot = Knot(step=step, progress=self.progress(step), steps=steps)
        return self.model_copy(update={"knots": [*self.knots, knot]})

    def applied(self, config: TrainingConfig) -> TrainingConfig:
        """[training] with what the plan decides."""
        names = ("steps", "warmup", "validate_every", "checkpoint_every")
        return config.model_copy(update={name: getattr(self, name) for name in names})
