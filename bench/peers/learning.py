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


def learner(model: nn.Module, logits: Callable[[Tensor, Tensor, Tensor], Tensor], settings: Settings) -> Run:
    """`logits(source, source lengths, target from BOS on)` → (B, T, V); the rest is alike for all."""
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
            wanted = target[:, 1:].reshape(-1)
            count = int((wanted != PAD).sum())
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                scores = logits(source, lengths, target[:, :-1])
                total = F.cross_entropy(
                    scores.flatten(0, 1),
                    wanted,
                    ignore_index=PAD,
                    label_smoothing=settings["smoothing"],
                    reduction="sum",
                )
            loss = total / count
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
            made += 1
            optimiser.param_groups[0]["lr"] = settings["learning_rate"] * made / settings["warmup"]
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.detach())
            targets += count
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "targets": targets, "losses": [float(loss) for loss in losses]}

    return run
