"""regard's own loop, on the batches that all systems get."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from answering import Run, Settings, answer
from reading import read_batches, read_weights

from regard import models
from regard.data.batches import Batch
from regard.linear import set_products
from regard.special import OWN
from regard.tasks.translate import Translate
from regard.training import machine, optimiser, run, schedule
from regard.training.config import TrainingConfig
from regard.training.loop import fit


class Repeated:
    """A stream that begins anew each time it is asked."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def stream(self, *, epoch: int, position: int) -> Iterator[Batch]:  # noqa: ARG002 - the signature is the loop's
        return iter(self.batches)


def prepare(settings: Settings) -> Run:
    config = TrainingConfig(
        precision=settings["precision"],
        threads=settings["threads"],
        learning_rate=settings["learning_rate"],
        warmup=settings["warmup"],
        label_smoothing=settings["smoothing"],
        clip=settings["clip"],
    )
    device = machine.prepare(config)
    sizes = {name: settings[name] for name in ("layers", "width", "heads", "hidden", "vocabulary", "dropout")}
    model = models.build("transformer", **sizes)
    model.load_state_dict(read_weights(settings["weights"]))
    set_products(model, machine.choose_precision(config.precision, device))
    batches = [
        Batch(source, lengths, target, (target[:, 1:] != 0).sum(1), int((target[:, 1:] != 0).sum()), ())
        for source, lengths, target in read_batches(settings["batches"])
    ]
    going = run.Run(model=model, optimiser=optimiser.build(model, config), batches=Repeated(batches), config=config)
    task = Translate(SimpleNamespace(special=OWN), smoothing=settings["smoothing"])  # type: ignore[arg-type]
    rate = schedule.build(config)

    def learn(asked: Settings) -> dict[str, Any]:
        losses: list[torch.Tensor] = []
        going.config = config.model_copy(update={"steps": going.step + asked["steps"]})
        begin, before = time.perf_counter(), going.tokens
        fit(going, task, schedule=rate, watchers=[lambda now: losses.append(now.loss)])
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "targets": going.tokens - before, "losses": [float(loss) for loss in losses]}

    return learn


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
