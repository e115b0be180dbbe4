"""Which parameters of a model learn: all, some layers, or changes of low rank."""

from __future__ import annotations

from torch import nn

from regard.errors import RegardError
from regard.layers.low_rank import add_low_rank
from regard.training.config import TrainingConfig
from regard.training.depth import freeze


def tuned(module: nn.Module, training: TrainingConfig) -> nn.Module:
    """The module with the low-rank parts and frozen layers that [training] asks for."""
    if not training.lora and not training.freeze:
        return module
    if training.lora and not add_low_rank(module, rank=training.lora):
        raise RegardError(
            f"training.lora={training.lora} changes queries and values, and this model has none; set it to 0"
        )
    freeze(module, training.freeze, lora=bool(training.lora))
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise RegardError(f"training.freeze={training.freeze!r} leaves nothing to learn, as there is no head; lower it")
    return module
