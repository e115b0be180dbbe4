"""A training run: its parts, its numbers, and when it ends."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regard.data.streams import Batch, Stream
from regard.tasks.base import Objective, Remembers
from regard.training.averaging import MovingAverage
from regard.training.config import TrainingConfig
from regard.training.plan import Plan
from regard.training.sharding import Shards

WORST = math.inf, math.inf


@dataclass
class Standing:
    """What is known of the validations so far, which are compared one after another."""

    seen: int = 0
    bests: list[int] = field(default_factory=lambda: [0])  # the places of those that were the best so far
    progress: int = 0  # the place of the last that was better, or with a second score not worse, in one of them
    lowest: tuple[float, float] = WORST  # ranks of score and loss: those of the best, or each the lowest of its own

    def add(self, rank: tuple[float, float], objective: Objective) -> None:
        """Compare the next validation with those before."""
        if objective.with_loss:
            good = [new <= low for new, low in zip(rank, self.lowest, strict=True)]
            best, progress = all(good), any(good)
            self.lowest = min(rank[0], self.lowest[0]), min(rank[1], self.lowest[1])
        else:
            best = progress = rank < self.lowest
            self.lowest = min(rank, self.lowest)
        if best and self.seen:
            self.bests.append(self.seen)
        if progress:
            self.progress = self.seen
        self.seen += 1


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
    shards: Shards | None = None  # where `model` is divided among the processes

    step: int = 0
    epoch: int = 0  # the place of the next batch
    position: int = 0
    targets: int = 0  # of the last update
    tokens: int = 0  # targets learned from
    skipped: int = 0  # steps that were not made, because the loss or the gradient was not finite
    parts: int = 1  # into which each batch is divided, where a whole one does not fit into memory
    plan: Plan | None = None  # for the minutes that the run has; `config` is as it says
    preparing: float = 0.0  # seconds before the first steps of this and earlier sittings
    seconds: float = 0.0  # of wall clock since then, in this and earlier sittings
    learning_seconds: float = 0.0  # of these, spent in updates
    learning_rate: float = 0.0
    loss: float | Tensor = math.nan  # of the last update, per target
    recent: float | Tensor = 0.0  # sum of these losses since the last point of the curve
    history: list[dict[str, float]] = field(default_factory=list)  # the points of the curve
    validations: list[dict[str, float]] = field(default_factory=list)  # step, and the task's scores
    _standing: Standing = field(default_factory=Standing)

    def ranked(self) -> list[int]:
        """The validated steps, best first; of equals the earlier. With the loss as a second score, those that were the
        best when they were validated come first, the latest before the others."""
        places = sorted(range(len(self.validations)), key=lambda place: self.objective.rank(self.validations[place]))
        if self.objective.with_loss and places:
            bests = dict.fromkeys(reversed(self.standing().bests))
            places = [*bests, *(place for place in places if place not in bests)]
        return [int(self.validations[place]["step"]) for place in places]

    def best(self) -> int:
        """The place of the best validation among all."""
        return self.standing().bests[-1]

    def standing(self) -> Standing:
        """How the validations compare. Only those since the last call are compared."""
        if self._standing.seen > len(self.validations):
            self._standing = Standing()
        for scores in self.validations[self._standing.seen :]:
            self._standing.add(self.objective.rank(scores), self.objective)
        return self._standing

    def is_best(self) -> bool:
        """Whether this very step was validated, and no earlier one was as good."""
        return self.validated() and self.best() == len(self.validations) - 1

    def validated(self) -> bool:
        """Whether this very step was validated."""
        return bool(self.validations) and self.validations[-1]["step"] == self.step

    def ending(self) -> str:
        """Why the run is over; empty while it is not."""
        if self.step >= self.config.steps:
            planned = f" that were planned for {self.plan.minutes:g} minutes" if self.plan else ""
            return f"all {self.config.steps} steps{planned} are made"
        if self.config.patience and self.validations:
            waited = len(self.validations) - 1 - self.standing().progress
            if waited >= self.config.patience:
                best = f"validation was best at step {int(self.validations[self.best()]['step'])}"
                if self.objective.with_loss:
                    return f"{best}, and neither {self.objective.name} nor loss was as good again in the last {waited}"
                return f"{best} and not better in the {waited} after it"
        return ""

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

    @property
    def whole(self) -> nn.Module:
        """The model with all names and shapes; where it is divided, without its weights."""
        return self.shards.whole if self.shards else self.model

    def gathered(self) -> AbstractContextManager[nn.Module]:
        """Within, the model with all its weights; where it is divided, all processes must enter."""
        return self.shards.gathered() if self.shards else nullcontext(self.model)

    def merge(self) -> None:
        """End learning in parts: `model` is whole again, and its weights are still to be loaded."""
        if self.shards:
            self.model, self.shards = self.shards.merged(), None
