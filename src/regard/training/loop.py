"""The loop. Everything that is not learning watches it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import nn

from regard.errors import RegardError
from regard.training.run import Run, Task
from regard.training.schedule import Schedule

Watcher = Callable[[Run], None]


def fit(run: Run, task: Task, *, schedule: Schedule, watchers: Sequence[Watcher] = ()) -> None:
    """Update the weights until the run ends; after every step, call every watcher in order.

        w ← w − optimiser(r_t, clip(Σ_b ∇ loss_b / Σ_b targets_b))           b over the batches of one step

    Losses are sums over targets, so accumulating batches equals one large batch.
    """
    model, optimiser, config = run.model, run.optimiser, run.config
    parameters = list(model.parameters())
    batches = run.batches.stream(epoch=run.epoch, position=run.position)
    model.train()

    while not run.ending():
        begin = time.perf_counter()
        group = list(islice(batches, config.accumulate))
        if not group:
            raise RegardError("there is not one batch to train on; look at data.train and its filters")
        targets = sum(batch.targets for batch in group)
        total = torch.zeros((), device=run.device)
        for batch in group:
            with run.autocast():
                loss = task.loss(model, batch.to(run.device))
            (loss / targets).backward()
            total += loss.detach()

        if config.clip:
            nn.utils.clip_grad_norm_(parameters, config.clip)
        run.learning_rate = schedule(run.step + 1)
        for parameter_group in optimiser.param_groups:
            parameter_group["lr"] = run.learning_rate * parameter_group["scale"]
        optimiser.step()
        optimiser.zero_grad()

        run.step += 1
        run.epoch, run.position = group[-1].epoch, group[-1].position + 1
        run.tokens += targets
        run.loss = total / targets
        run.learning_seconds += time.perf_counter() - begin
        for watcher in watchers:
            watcher(run)
        run.seconds += time.perf_counter() - begin
