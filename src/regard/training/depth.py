"""How deep in a model a parameter is: what is frozen, and what learns more slowly.

Of a model with N blocks the embeddings have depth 0, block n (from 1) has n, and what stands on top N + 1.
"""

from __future__ import annotations

import re
from typing import Literal

from torch import nn

from regard.errors import RegardError

LOWEST = re.compile(r"(^|\.)(embedding|segments|norm)\.")
BLOCK = re.compile(r"(^|\.)(?:blocks|\w*layers)\.(\d+)\.")
LAST = re.compile(r"(^|\.)body\.final\.")  # goes with the last block


def depths(model: nn.Module) -> dict[str, int]:
    """Depth of each parameter by name."""
    blocks = {name: BLOCK.search(name) for name, _ in model.named_parameters()}
    top = max((int(found[2]) + 1 for found in blocks.values() if found), default=0) + 1
    return {
        name: int(found[2]) + 1 if found else 0 if LOWEST.search(name) else top - 1 if LAST.search(name) else top
        for name, found in blocks.items()
    }


def freeze(model: nn.Module, amount: int | Literal["all"], *, lora: bool) -> None:
    """Let the embeddings and the first blocks, so many or all, learn no more; with `lora`, its parts still learn."""
    depth = depths(model)
    top = max(depth.values())
    if isinstance(amount, int) and amount >= top:
        raise RegardError(f'training.freeze={amount} and the model has {top - 1} layers; freeze fewer, or "all"')
    lowest = top - 1 if amount == "all" or lora else amount
    for name, parameter in model.named_parameters():
        frozen = depth[name] <= lowest and (amount != 0 or lora)
        if frozen and not (lora and name.endswith((".up", ".down"))):
            parameter.requires_grad_(False)


def rates(model: nn.Module, decay: float) -> dict[str, float]:
    """By what factor the learning rate of each parameter is lower than that of the top: decay^(top − depth)."""
    depth = depths(model)
    top = max(depth.values())
    return {name: decay ** (top - each) for name, each in depth.items()}
