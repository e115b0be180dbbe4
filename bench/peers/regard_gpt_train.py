"""regard's own loop with its GPT, on the blocks that all systems get."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from answering import Run, Settings, answer
from reading import read_batches
from regard_train import configured, learner
from torch import Tensor, nn

from regard import models
from regard.data.text.blocks import BlockBatch
from regard.special import OWN
from regard.tasks.write.task import Write


def build(settings: Settings) -> nn.Module:
    sizes = {name: settings[name] for name in ("layers", "width", "heads", "hidden", "vocabulary")}
    return models.build("gpt", maximum=settings["context"], dropout=settings.get("dropout", 0.0), **sizes)


def block(target: Tensor) -> BlockBatch:
    """Rows (B, T + 1) of neighbouring tokens, all of which count."""
    tokens, wanted = target[:, :-1], target[:, 1:]
    return BlockBatch(tokens[:, :0], tokens, wanted, torch.ones_like(wanted, dtype=torch.bool), wanted.numel())


def prepare(settings: Settings) -> Run:
    config = configured(settings)
    length = settings["context"]
    task = Write(SimpleNamespace(special=OWN), block=length, reach=length, smoothing=settings["smoothing"])  # type: ignore[arg-type]
    batches = [block(target) for _, _, target in read_batches(settings["batches"])]
    return learner(build(settings), task, batches, settings, config)


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
