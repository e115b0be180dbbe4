"""regard's own loop with its ViT, on the pictures that all systems get."""

from __future__ import annotations

import torch
from answering import Run, Settings, answer
from reading import read_batches
from regard_train import configured, learner

from regard import models
from regard.data.pictures.batches import PictureBatch
from regard.tasks.see import Measured, See

SIZES = ("layers", "width", "heads", "hidden", "patch_size", "dropout", "channels", "rows", "columns", "outputs")


def prepare(settings: Settings) -> Run:
    config = configured(settings)
    measured = Measured(
        **{name: settings[name] for name in ("rows", "columns", "channels")},
        mean=[0.5] * settings["channels"],
        deviation=[0.5] * settings["channels"],
    )
    task = See([str(number) for number in range(settings["outputs"])], measured, smoothing=settings["smoothing"])
    model = models.build("vit", epsilon=1e-6, **{name: settings[name] for name in SIZES})
    batches = [
        PictureBatch(pictures, target[:, 1:] - 1, torch.ones(len(target), 1))
        for pictures, _, target in read_batches(settings["batches"])
    ]
    return learner(model, task, batches, settings, config)


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
