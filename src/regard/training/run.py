"""A training run: its parts, its numbers, and when it ends."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regard.data.streams import Batch, Stream
from regard.errors import RegardError
from regard.tasks.base import Objective, Remembers
from regard.training.averaging import MovingAverage
from regard.training.config import TrainingConfig


@dataclass
class Run:
    """Everything that changes while training. A checkpoint holds this and the random state."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    batches: Stream[Batch]
    config: TrainingConfig
    objective: Objective = field(default_factory=Objective)
    moving: MovingAverage | None = None
    precision: torch.dtype = torch.float32  # of matrix products
    remembers: Remembers | None = None  # the task, if it keeps tensors from one batch to the next

    step: int = 0
    epoch: int = 0  # the place of the next batch
    position: int = 0
    targets: int = 0  # of the last update
    tokens: int = 0  # targets learned from
    seconds: float = 0.0  # of wall clock, in this and earlier sittings
    learning_seconds: float = 0.0  # of these, spent in updates
    learning_rate: float = 0.0
    loss: float | Tensor = math.nan  # of the last update, per target
    recent: float | Tensor = 0.0  # sum of these losses since the last point of the curve
    history: list[dict[str, float]] = field(default_factory=list)  # the points of the curve
    validations: list[dict[str, float]] = field(default_factory=list)  # step, and the task's scores
    # by objective: how many validations were compared, and the place of the best of them
    _best: dict[Objective, tuple[int, int]] = field(default_factory=dict)

    def ranked(self) -> list[int]:
        """The validated steps, best first; of equals the earlier."""
        return [int(scores["step"]) for scores in sorted(self.validations, key=self.objective.rank)]

    def best(self) -> int:
        """The place of the best validation among all, of equals the earlier."""
        return self._first_best(self.objective)

    def best_loss(self) -> int:
        """The place of the validation with the lowest loss."""
        return self._first_best(Objective())

    def _first_best(self, objective: Objective) -> int:
        """The place of the best validation by an objective. Only those since the last call are compared."""
        seen, best = self._best.get(objective, (0, 0))
        seen, best = (seen, best) if seen <= len(self.validations) else (0, 0)
        for place in range(max(seen, 1), len(self.validations)):
            if objective.rank(self.validations[place]) < objective.rank(self.validations[best]):
                best = place
        self._best[objective] = len(self.validations), best
        return best

    def is_best(self) -> bool:
        """Whether this very step was validated, and no earlier one was as good."""
        return self.validated() and self.best() == len(self.validations) - 1

    def validated(self) -> bool:
        """Whether this very step was validated."""
        return bool(self.validations) and self.validations[-1]["step"] == self.step

    def ending(self) -> str:
        """Why the run is over; empty while it is not."""
        if self.step >= self.config.steps:
            return f"all {self.config.steps} steps are made"
        if self.config.minutes is not None and self.seconds >= 60 * self.config.minutes:
            return f"the {self.config.minutes:g} minutes are over"
        if self.config.patience and self.validations:
            latest = max(self.best(), self.best_loss()) if self.objective.or_loss else self.best()
            waited = len(self.validations) - 1 - latest
            if waited >= self.config.patience:
                best = int(self.validations[self.best()]["step"])
                either = latest > self.best()
                since = f"by it or by loss in the last {waited}" if either else f"in the {waited} after it"
                return f"validation was best at step {best} and not better {since}"
        return ""

    def require_finite(self) -> None:
        """Stop a run whose loss is not finite, before it overwrites good checkpoints."""
        if not math.isfinite(self.loss):
            raise RegardError(
                f"the loss is {float(self.loss)} at step {self.step}, and nothing can be learned from there; "
                f"try a learning_rate below {self.config.learning_rate:g}, or a warmup above {self.config.warmup}"
            )

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def autocast(self) -> torch.autocast:
        """On a GPU torch chooses what is computed in the run's precision; on a CPU `Linear` does, for its products."""
        wanted = self.precision == torch.bfloat16 and self.device.type != "cpu"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=wanted)

    def averaged(self) -> AbstractContextManager[None]:
        """Within, the model holds the weights to judge and to keep: their moving average if there is one."""
        return self.moving.applied(self.model) if self.moving else nullcontext()
