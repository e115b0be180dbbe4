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


def layers_of(model: nn.Module) -> int:
    """How many blocks stand on each other."""
    found = (BLOCK.search(name) for name, _ in model.named_parameters())
    return max((int(each[2]) + 1 for each in found if each), default=0)


def depths(model: nn.Module) -> dict[str, int]:
    """Depth of each parameter by name."""
    blocks, layers = {name: BLOCK.search(name) for name, _ in model.named_parameters()}, layers_of(model)
    return {
        name: int(found[2]) + 1 if found else 0 if LOWEST.search(name) else layers + (not LAST.search(name))
        for name, found in blocks.items()
    }


def freeze(model: nn.Module, amount: int | Literal["all"], *, lora: bool) -> None:
    """Let the embeddings and the first blocks, so many or all, learn no more; with `lora`, its parts still learn."""
    depth, layers = depths(model), layers_of(model)
    if isinstance(amount, int) and amount > layers:
        raise RegardError(f'training.freeze={amount} and the model has {layers} layers; freeze fewer, or "all"')
    lowest = layers if amount == "all" or lora else amount
    for name, parameter in model.named_parameters():
        frozen = depth[name] <= lowest and (amount != 0 or lora)
        if frozen and not (lora and name.endswith((".up", ".down"))):
            parameter.requires_grad_(False)


def rates(model: nn.Module, decay: float) -> dict[str, float]:
    """By what factor the learning rate of each parameter is lower than that of the top: decay^(top − depth)."""
    depth, top = depths(model), layers_of(model) + 1
    return {name: decay ** (top - each) for name, each in depth.items()}
