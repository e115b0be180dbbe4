"""Weights averaged over time: while training (a moving average), and over checkpoints at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from regard.training.sharding import local


class MovingAverage:
    """An exponential moving average of the weights.

    a ← d a + (1 − d) w,   d = min(decay, (1 + t) / (10 + t))         so that early steps are soon forgotten
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        own, present = ([local(each.detach()) for each in some] for some in (self.weights.values(), model.parameters()))
        get_ema_multi_avg_fn(decay)(own, present, step)

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Within, the model holds the averaged weights; afterwards its own again, to the bit."""
        own = {name: p.detach().clone() for name, p in model.named_parameters()}
        _copy(self.weights, model)
        try:
            yield
        finally:
            _copy(own, model)


@torch.no_grad()
def _copy(weights: dict[str, Tensor], model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        local(parameter).copy_(local(weights[name]))


def mean(checkpoints: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight, summed in float64 one checkpoint at a time; whole numbers (counters) are the last's."""
    totals: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    count = 0
    for last in checkpoints:
        for name, tensor in last.items():
            if tensor.is_floating_point():
                totals[name] = totals[name].add_(tensor) if name in totals else tensor.to(torch.float64, copy=True)
        count += 1
    means = {name: (total / count).to(last[name].dtype) for name, total in totals.items()}
    return {name: means.get(name, tensor) for name, tensor in last.items()}
