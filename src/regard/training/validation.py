"""The scores of a model: at validations while it trains, and of its final weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from rich.console import Console
from torch import nn

from regard.data.streams import Batch, Stream
from regard.tasks.base import AnyTask, Exam, Score

Judge = Callable[[nn.Module], Mapping[str, Score]]


def validation(task: AnyTask, batches: Stream[Batch], exam: Exam, device: torch.device) -> Judge:
    """The loss per target on the validation examples, without smoothing, and the scores of a quick exam."""

    def judge(module: nn.Module) -> dict[str, Score]:
        if exam.loss:
            return exam.scores(module)
        total, targets = 0.0, 0
        for batch in batches.in_order():
            total += float(task.loss(module, batch.to(device), plain=True))
            targets += batch.targets
        loss = {"loss": Score(total / targets)} if targets else {}
        return {**loss, **exam.scores(module)}

    return judge


def final(exam: Exam, console: Console) -> Judge:
    """The scores of a whole exam, with a line that says what is going on."""

    def judge(module: nn.Module) -> dict[str, Score]:
        with console.status(f"answering {exam.about} to score the model"):
            return exam.scores(module)

    return judge
