"""regard's own loop, on the batches that all systems get."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from answering import Run, Settings, answer
from reading import read_batches, read_weights
from torch import nn

from regard import models
from regard.data.pairs.batches import PairBatch
from regard.data.streams import Batch
from regard.kernels.linear import set_products
from regard.special import OWN
from regard.tasks.translate.task import Translate
from regard.training import machine, optimiser, run, schedule
from regard.training.config import TrainingConfig
from regard.training.loop import fit


class Repeated:
    """A stream that begins anew each time it is asked."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches

    def stream(self, *, epoch: int, position: int) -> Iterator[Batch]:  # noqa: ARG002 - the signature is the loop's
        return iter(self.batches)


def configured(settings: Settings) -> TrainingConfig:
    """How to learn, and this process made ready for it: call it before any other work in torch."""
    config = TrainingConfig(
        precision=settings["precision"],
        threads=settings["threads"],
        learning_rate=settings["learning_rate"],
        warmup=settings["warmup"],
        label_smoothing=settings["smoothing"],
        clip=settings["clip"],
    )
    machine.prepare(config)
    return config


def learner(
    model: nn.Module, task: run.Task, batches: Sequence[Batch], settings: Settings, config: TrainingConfig
) -> Run:
    """The loop from the first weights of all, so many steps each time it is asked."""
    device = machine.choose_device(config.device)
    model.load_state_dict(read_weights(settings["weights"]))
    set_products(model, machine.choose_precision(config.precision, device))
    going = run.Run(model=model, optimiser=optimiser.build(model, config), batches=Repeated(batches), config=config)
    rate = schedule.build(config)

    def learn(asked: Settings) -> dict[str, Any]:
        losses: list[torch.Tensor] = []
        going.config = config.model_copy(update={"steps": going.step + asked["steps"]})
        begin, before = time.perf_counter(), going.tokens
        fit(going, task, schedule=rate, watchers=[lambda now: losses.append(now.loss)])
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "targets": going.tokens - before, "losses": [float(loss) for loss in losses]}

    return learn


def prepare(settings: Settings) -> Run:
    config = configured(settings)
    sizes = {name: settings[name] for name in ("layers", "width", "heads", "hidden", "vocabulary", "dropout")}
    batches = [
        PairBatch(source, lengths, target, (target[:, 1:] != 0).sum(1), int((target[:, 1:] != 0).sum()), ())
        for source, lengths, target in read_batches(settings["batches"])
    ]
    task = Translate(SimpleNamespace(special=OWN), smoothing=settings["smoothing"])  # type: ignore[arg-type]
    return learner(models.build("transformer", **sizes), task, batches, settings, config)


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
