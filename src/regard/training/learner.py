"""A model and its loss as one module: a loss may use any part of a model and still be wrapped for many processes."""

from __future__ import annotations

from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.data.streams import Batch
from regard.layers.penalty import penalties

BatchIn = TypeVar("BatchIn", bound=Batch, contravariant=True)


class Loss(Protocol[BatchIn]):
    """The part of a task that training needs."""

    def loss(self, model: nn.Module, batch: BatchIn) -> Tensor:
        """The sum (not the mean) over the targets of the batch."""
        ...


class Learner(nn.Module):
    """batch → loss, with what layers add to it.

    `DistributedDataParallel` wraps this module: it sees only what goes through `forward`.
    """

    def __init__(self, module: nn.Module, task: Loss[Batch]) -> None:
        super().__init__()
        self.module, self.task = module, task

    def forward(self, batch: Batch) -> Tensor:
        with penalties() as added:
            loss = self.task.loss(self.module, batch)
        return loss + batch.targets * torch.stack(added).sum() if added else loss
