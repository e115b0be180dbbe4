"""Random state: seeded at the start, kept in checkpoints."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor


def seed(number: int) -> None:
    """Seed every generator that training may draw from: torch's on all devices, NumPy's and Python's."""
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def derived(*numbers: int) -> int:
    """A seed that differs whenever one of the numbers does."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def capture() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state of all generators: torch's as byte tensors, the others as what JSON can hold."""
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"cuda/{index}": state for index, state in enumerate(torch.cuda.get_rng_state_all())}
    name, keys, *rest = np.random.get_state(legacy=True)
    version, numbers, gauss = random.getstate()
    return tensors, {"numpy": [name, np.asarray(keys).tolist(), *rest], "python": [version, list(numbers), gauss]}


def restore(tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    torch.set_rng_state(tensors["torch"])
    for index in range(torch.cuda.device_count()):
        if f"cuda/{index}" in tensors:
            torch.cuda.set_rng_state(tensors[f"cuda/{index}"], index)
    name, keys, *rest = numbers["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    version, state, gauss = numbers["python"]
    random.setstate((version, tuple(state), gauss))
