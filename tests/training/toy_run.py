"""A training run that takes milliseconds and depends on everything that must survive a kill.

It draws from torch's generator (dropout), NumPy's and Python's (noise in the loss), shares weights between two layers,
and reads its batches, which have different sizes, in an order that changes from epoch to epoch.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from regard.kernels.linear import Linear
from regard.tasks.base import Objective, Score
from regard.training import optimiser
from regard.training.averaging import MovingAverage
from regard.training.config import TrainingConfig
from regard.training.run import Run
from regard.training.train import train

SYMBOLS, WIDTH = 13, 7


@dataclass
class Batch:
    symbols: Tensor
    following: Tensor
    epoch: int = 0
    position: int = 0
    idle: bool = False

    @property
    def targets(self) -> int:
        return len(self.following)

    def to(self, _: torch.device) -> "Batch":
        return self

    def divided(self, most: int) -> list["Batch"]:
        parts = zip(self.symbols.tensor_split(most), self.following.tensor_split(most), strict=True)
        return [replace(self, symbols=symbols, following=following) for symbols, following in parts if len(symbols)]


class Cycle:
    """Batches of the task "which symbol follows", without end: sizes 2, 3, 5, 11, shuffled by epoch."""

    def stream(self, *, epoch: int = 0, position: int = 0) -> Iterator[Batch]:
        for number in count(epoch):
            order = np.random.default_rng((5, number)).permutation(4)
            for place in range(position if number == epoch else 0, len(order)):
                generator = torch.Generator().manual_seed(100 * number + place)
                symbols = torch.randint(SYMBOLS, ((2, 3, 5, 11)[order[place]],), generator=generator)
                yield Batch(symbols, (3 * symbols + 1) % SYMBOLS, epoch=number, position=place)


class Predictor(nn.Module):
    def __init__(self, *, dropout: float = 0.3) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.hidden = Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(WIDTH, SYMBOLS)
        self.output.weight = self.embed.weight

    def forward(self, symbols: Tensor) -> Tensor:
        return self.output(self.dropout(self.norm(self.hidden(self.embed(symbols)).tanh())))


class Following:
    """The task. With noise, its loss depends on the generators of NumPy and Python."""

    def __init__(self, *, noise: float = 0.1) -> None:
        self.noise = noise

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        wobble = 1 + self.noise * (random.random() + np.random.random())
        return wobble * F.cross_entropy(model(batch.symbols), batch.following, reduction="sum")


def validate(model: nn.Module) -> dict[str, Score]:
    symbols = torch.arange(SYMBOLS)
    torch.rand(3)  # validation may draw; training must not notice
    logits = model(symbols)
    following = (3 * symbols + 1) % SYMBOLS
    return {
        "loss": Score(F.cross_entropy(logits, following).item()),
        "accuracy": Score((logits.argmax(-1) == following).float().mean().item()),
    }


def config(**changes: Any) -> TrainingConfig:
    small = {
        "steps": 40, "warmup": 7, "learning_rate": 0.03, "accumulate": 2, "validate_every": 5, "checkpoint_every": 5,
        "record_every": 4, "average": 3, "threads": 1, "precision": "float32", "device": "cpu",
    }  # fmt: skip
    return TrainingConfig.model_validate({**small, **changes})


def toy(*, dropout: float = 0.3, **changes: Any) -> Run:
    """A run without a directory, for the parts below `train`."""
    model = Predictor(dropout=dropout)
    settings = config(**changes)
    return Run(
        model=model,
        optimiser=optimiser.build(model, settings),
        batches=Cycle(),
        config=settings,
        moving=MovingAverage(model, decay=settings.ema) if settings.ema else None,
    )


def learn(directory: Path, *, console: Console | None = None, **changes: Any) -> dict[str, Any]:
    """The whole way, silently unless there is a console."""
    with Path(os.devnull).open("w") as nowhere:
        return train(
            Predictor(),
            Following(),
            Cycle(),
            config=config(**changes),
            directory=directory,
            names={"task": "follow", "kind": "toy"},
            objective=Objective("accuracy", higher=True),
            validate=validate,
            console=console or Console(file=nowhere),
        )


def survive(directory: Path, *, kills: int, seed: int, longest: float) -> int:
    """Start `learn` in a process of its own, kill it at a random moment, again and again; at last let it end.

    Returns how many were killed before they ended by themselves.
    """
    moments = random.Random(seed)
    killed = 0
    for attempt in range(kills + 1):
        child = os.fork()
        if child == 0:
            learn(directory, **STRENUOUS)
            os._exit(0)
        if attempt < kills:
            time.sleep(moments.uniform(0, longest))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
    return killed


STRENUOUS = {"steps": 75, "checkpoint_every": 3, "validate_every": 3, "ema": 0.9, "average": 4}

if __name__ == "__main__":
    torch.set_num_threads(1)
    print(survive(Path(sys.argv[1]), kills=int(sys.argv[2]), seed=int(sys.argv[3]), longest=float(sys.argv[4])))
