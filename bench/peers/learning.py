"""The plain training loop that a user of torch writes, for every peer that has none of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from answering import Run, Settings
from reading import read_batches
from torch import Tensor, nn
from torch.nn import functional as F

PAD = 0


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def smoothed(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The loss summed over targets: logits (B, T, V), target (B, T + 1) from BOS to EOS, padded with 0."""
    wanted = target[:, 1:].reshape(-1)
    return F.cross_entropy(logits.flatten(0, 1), wanted, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")


def learner(model: nn.Module, loss: Loss, settings: Settings) -> Run:
    """`loss(source, source lengths, target)` sums over targets; the rest is alike for all."""
    batches = read_batches(settings["batches"])
    optimiser = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    half = settings["precision"] == "bfloat16"
    made = 0
    model.train()

    def run(asked: Settings) -> dict[str, Any]:
        nonlocal made
        losses, targets = [], 0
        begin = time.perf_counter()
        for source, lengths, target in batches[: asked["steps"]]:
            count = int((target[:, 1:] != PAD).sum())
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                average = loss(source, lengths, target) / count
            average.backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
            made += 1
            optimiser.param_groups[0]["lr"] = settings["learning_rate"] * made / settings["warmup"]
            optimiser.step()
            optimiser.zero_grad()
            losses.append(average.detach())
            targets += count
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "targets": targets, "losses": [float(each) for each in losses]}

    return run
