"""Reading what the benchmark wrote for all systems."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import torch


def read_batches(path: str) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """source (B, S) with EOS, its lengths (B,), target (B, T + 1) from BOS to EOS; padded with 0."""
    with numpy.load(path) as found:
        count = sum(name.startswith("target_") for name in found.files)
        names = ("source", "source_lengths", "target")
        return [tuple(torch.from_numpy(found[f"{name}_{number}"]) for name in names) for number in range(count)]


def read_weights(path: str) -> dict[str, torch.Tensor]:
    """By the names of regard's modules."""
    with numpy.load(path) as found:
        return {name: torch.from_numpy(found[name]) for name in found.files}


def read_sources(path: str, *, together: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of so many sources (B, S), padded with 0, and their lengths (B,)."""
    rows = [torch.tensor(row) for row in json.loads(Path(path).read_text(encoding="utf-8"))]
    groups = [rows[start : start + together] for start in range(0, len(rows), together)]
    return [
        (torch.nn.utils.rnn.pad_sequence(group, batch_first=True), torch.tensor([len(row) for row in group]))
        for group in groups
    ]
