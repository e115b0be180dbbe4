"""The scores of a model: at validations while it trains, and of its final weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import torch
from rich.console import Console
from torch import nn

from regard.data.streams import Batch, Stream
from regard.tasks.base import AnyTask, Exam, Score
from regard.tasks.together import spread_over
from regard.training.distribution import Crew

Judge = Callable[[nn.Module], Mapping[str, Score]]


def validation(task: AnyTask, batches: Stream[Batch], exam: Exam, device: torch.device, crew: Crew) -> Judge:
    """The loss per target on the validation examples, without smoothing, and the scores of a quick exam.

    Of several processes each has its part in both; batches that continue each other are read by the leading one.
    """

    def judge(module: nn.Module) -> dict[str, Score]:
        if exam.loss:
            return examined(exam, module, crew)
        sums = torch.zeros(2, dtype=torch.float64)  # of losses, and of targets
        mine = slice(0, None if crew.leads else 0) if batches.chained else slice(crew.rank, None, crew.world)
        for batch in islice(batches.in_order(), mine.start, mine.stop, mine.step):
            sums += torch.tensor([float(task.loss(module, batch.to(device), plain=True)), batch.targets])
        total, targets = crew.total(sums).tolist()
        loss = {"loss": Score(total / targets)} if targets else {}
        return {**loss, **examined(exam, module, crew)}

    return judge


def examined(exam: Exam, module: nn.Module, crew: Crew) -> dict[str, Score]:
    """The scores of an exam that all processes take together, as the leading one computes them."""
    with spread_over(crew):
        return crew.told(exam.scores(module))


def final(exam: Exam, console: Console, crew: Crew) -> Judge:
    """The scores of a whole exam, with a line that says what is going on."""

    def judge(module: nn.Module) -> dict[str, Score]:
        with console.status(f"answering {exam.about} to score the model"):
            return examined(exam, module, crew)

    return judge
