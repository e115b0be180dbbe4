"""The training loop: it updates the weights; watchers do everything else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import nn

from regard.data.streams import Batch
from regard.errors import RegardError
from regard.training.distribution import Crew
from regard.training.learner import Learner, Loss
from regard.training.run import Run
from regard.training.schedule import Schedule

Watcher = Callable[[Run], None]


def fit(
    run: Run, task: Loss[Batch], *, schedule: Schedule, watchers: Sequence[Watcher] = (), crew: Crew | None = None
) -> None:
    """Update the weights until the run ends; after every step, call every watcher in order.

        w ← w − optimiser(r_t, clip(Σ_b ∇ loss_b / Σ_b targets_b))           b over the batches of one step

    Losses are sums over targets, so accumulating batches equals one large batch, and so do batches of many processes.
    """
    model, optimiser, config = run.model, run.optimiser, run.config
    crew = crew or Crew()
    learner = run.shards.learner if run.shards else crew.wrap(Learner(model, task))
    parameters = list(model.parameters())
    batches = run.batches.stream(epoch=run.epoch, position=run.position)
    model.train()

    while not crew.agree(bool(run.ending())):
        begin = time.perf_counter()
        crew.seed(config.seed, run.step)
        group = list(islice(batches, config.accumulate))
        if not group:
            raise RegardError("there is not one batch to train on; look at data.train and its filters")
        targets = int(crew.total(torch.tensor(sum(batch.targets for batch in group if not batch.idle))))
        total = torch.zeros((), device=run.device)
        for number, batch in enumerate(group, 1):
            with run.autocast(), crew.quiet(learner, until=number == len(group)):
                loss = learner(batch.to(run.device)) * (not batch.idle)
                (loss / (targets / crew.world)).backward()  # gradients are averaged over the processes
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
        run.targets = targets
        run.tokens += targets
        run.loss = crew.total(total) / targets
        run.learning_seconds += time.perf_counter() - begin
        for watcher in watchers:
            watcher(run)
        run.seconds += time.perf_counter() - begin
