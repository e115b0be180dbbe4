"""The training loop: it updates the weights; watchers do everything else."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from regard.data.streams import Batch
from regard.errors import RegardError
from regard.tasks.base import Remembers
from regard.training import faults, machine
from regard.training.distribution import Crew
from regard.training.learner import Learner, Loss
from regard.training.run import Run
from regard.training.schedule import Schedule
from regard.training.sharding import whole

Watcher = Callable[[Run], None]
Clock = Callable[[], float]


def fit(
    run: Run,
    task: Loss[Batch],
    *,
    schedule: Schedule,
    watchers: Sequence[Watcher] = (),
    crew: Crew | None = None,
    clock: Clock = time.perf_counter,
) -> None:
    """Update the weights until the run ends; after every step, call every watcher in order.

        w ← w − optimiser(r_t, clip(Σ_b ∇ loss_b / Σ_b targets_b))           b over the batches of one step

    Losses are sums over targets, so accumulating batches equals one large batch, and so do batches of many processes,
    and the parts of a batch.

    If the loss or the gradient is not finite, the step is skipped: weights, optimiser, schedule and averages are as if
    its batches were not in the data. All processes skip the same steps, because they have the same sums.
    """
    model, optimiser, config = run.model, run.optimiser, run.config
    crew = crew or Crew()
    learner = run.shards.learner if run.shards else crew.wrap(Learner(model, task))
    parameters = list(model.parameters())
    batches = run.batches.stream(epoch=run.epoch, position=run.position)
    skips = 0  # in a row
    model.train()

    while not crew.agree(bool(run.ending())):
        begin = clock()
        crew.seed(config.seed, run.step)
        group, targets = _next(batches, config.accumulate, crew)
        remembered = task.remembered() if isinstance(task, Remembers) else {}
        loss = crew.total(gradients(run, learner, group, targets, crew)) / targets
        norm = _clipped(parameters, config.clip)
        run.epoch, run.position = group[-1].epoch, group[-1].position + 1
        if not (math.isfinite(loss) and math.isfinite(norm)):
            optimiser.zero_grad()
            if isinstance(task, Remembers):
                task.remind(remembered)
            run.skipped, skips = run.skipped + 1, skips + 1
            run.seconds += clock() - begin
            _tell_skip(run, float(loss), norm, group, last=skips > config.max_skips, crew=crew)
            continue

        skips = 0
        run.learning_rate = schedule(run.step + 1)
        for parameter_group in optimiser.param_groups:
            parameter_group["lr"] = run.learning_rate * parameter_group["scale"]
        optimiser.step()
        optimiser.zero_grad()

        run.step += 1
        run.targets = targets
        run.tokens += targets
        run.loss = loss
        run.learning_seconds += clock() - begin
        for watcher in watchers:
            watcher(run)
        run.seconds += clock() - begin


def _next(batches: Iterator[Batch], count: int, crew: Crew) -> tuple[list[Batch], int]:
    """The batches of the next step, and the number of targets that all processes have in theirs."""
    group, wrong = list[Batch](), ""
    try:
        group = list(islice(batches, count))
    except (OSError, RegardError) as error:
        wrong = faults.of_data(error)
    mine = sum(batch.targets for batch in group if not batch.idle)
    targets, faulty = crew.total(torch.tensor([mine, bool(wrong)])).tolist()
    if faulty:
        raise faults.DataLostError(next(filter(None, crew.gathered(wrong))))
    if not group:
        raise RegardError("there is not one batch to train on; look at data.train and its filters")
    return group, targets


def gradients(run: Run, learner: nn.Module, group: Sequence[Batch], targets: int, crew: Crew) -> Tensor:
    """Leave the gradient of a step in the parameters, and return the sum of the losses in this process.

    If memory does not suffice, the attempt is forgotten and made again with every batch in twice as many parts, and so
    are all later steps. A part needs the memory of its own rows only, and the sum over the parts is the gradient of the
    whole batch, so that only the order of summation changes. Of several processes, one alone cannot try again, because
    the others already wait for its gradient: `LacksMemoryError` ends it, and all are started again with more parts.
    """
    while True:
        try:
            return _summed(run, learner, group, targets, crew)
        except (MemoryError, RuntimeError) as error:
            if not machine.out_of_memory(error) or not _divisible(group, run.parts):
                raise
        # from here on the error is gone, and with it the tensors that its frames held
        if crew.world > 1:
            raise faults.LacksMemoryError(2 * run.parts)
        run.optimiser.zero_grad()
        run.parts *= 2
        warnings.warn(
            f"there is not enough memory for a step; from step {run.step + 1} on, each batch is divided into "
            f"{run.parts} parts, which takes longer and gives the same gradient; to avoid this, lower "
            "training.batch_tokens or training.batch_size",
            stacklevel=2,
        )


def _summed(run: Run, learner: nn.Module, group: Sequence[Batch], targets: int, crew: Crew) -> Tensor:
    """One attempt at the gradient: the sum over all parts of all batches."""
    parts = [part for batch in group for part in batch.divided(run.parts)]
    total = torch.zeros((), device=run.device)
    for number, part in enumerate(parts, 1):
        with run.autocast(), crew.quiet(learner, until=number == len(parts)):
            loss = learner(part.to(run.device)) * (not part.idle)
            (loss / (targets / crew.world)).backward()  # gradients are averaged over the processes
        total += loss.detach()
    return total


def _divisible(group: Sequence[Batch], parts: int) -> bool:
    """Whether twice as many parts would be smaller ones."""
    return any(len(batch.divided(2 * parts)) > len(batch.divided(parts)) for batch in group)


def _clipped(parameters: Sequence[nn.Parameter], most: float) -> float:
    """The norm of the gradient, which is scaled down to `most` if it is longer; 0 never scales."""
    total = nn.utils.get_total_norm([each.grad for each in parameters if each.grad is not None])
    norm = float(whole(total))
    if most and norm > most:
        nn.utils.clip_grads_with_norm_(parameters, most, total)
    return norm


def _tell_skip(run: Run, loss: float, norm: float, group: Sequence[Batch], *, last: bool, crew: Crew) -> None:
    """Say that a step is skipped; after the last one that may be, end the run."""
    what = f"the loss is {loss:g}" if not math.isfinite(loss) else f"the norm of the gradient is {norm:g}"
    if last:
        raise faults.NotFiniteError(
            f"{what} after step {run.step}, and {run.config.max_skips} steps in a row before it were skipped for the "
            f"same reason; try a learning_rate below {run.config.learning_rate:g}, or a warmup above "
            f"{run.config.warmup}",
            group,
        )
    if crew.leads:
        warnings.warn(
            f"{what} after step {run.step}; the step is skipped, with batch {run.position} of epoch {run.epoch + 1} of "
            f"the data ({run.skipped} skipped so far)",
            stacklevel=2,
        )
