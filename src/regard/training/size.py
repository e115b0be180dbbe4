"""How large a model is, known before any of its weights is allocated."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from regard.errors import RegardError
from regard.models.facts import ModelConfig
from regard.training import machine

TRAINED = 16  # bytes for each parameter while it is trained: weight, gradient and Adam's two moments, float32 each
LOADED = 4
FEW = 2  # layers that are built to count by

Build = Callable[[ModelConfig], nn.Module]


def require_room(build: Build, config: ModelConfig, *, device: torch.device, each: int) -> None:
    """Refuse a model that does not fit into memory with `each` bytes for a parameter."""
    number, free = count_parameters(build, config), machine.free_memory(device)
    if number * each > free:
        raise RegardError(
            f"[model] describes {number:,} parameters, which need {_gigabytes(number * each)} of memory, and "
            f"{_gigabytes(free)} are free; lower its sizes (layers, width, hidden, vocabulary)"
        )


def count_parameters(build: Build, config: ModelConfig) -> int:
    """The parameters of a model, counted on the meta device, where tensors have shapes and no memory.

    Layers are all alike, so the number grows by the same amount with each of them. Two are built, and the rest is
    extrapolated: parameters(L) = parameters(2) + (L − 2) · (parameters(2) − parameters(1)).
    """
    deep = {name: size for name, size in config if name.endswith("layers") and isinstance(size, int | list)}
    few = {name: _least(size, FEW) for name, size in deep.items()}
    total = _count(build, config.model_copy(update=few))
    more = 0
    for name, size in deep.items():
        for stage, layers in enumerate(size if isinstance(size, list) else [size]):
            if layers > FEW:
                fewer = {**few, name: _with(few[name], stage, FEW - 1)}
                more += (layers - FEW) * (total - _count(build, config.model_copy(update=fewer)))
    return total + more


def _least(size: int | list[int], most: int) -> int | list[int]:
    """A number of layers, or those of each stage, and at most `most`."""
    return [min(each, most) for each in size] if isinstance(size, list) else min(size, most)


def _with(size: int | list[int], stage: int, layers: int) -> int | list[int]:
    """The same number of layers, or those of each stage, with another number in one stage."""
    return [*size[:stage], layers, *size[stage + 1 :]] if isinstance(size, list) else layers


def _count(build: Build, config: ModelConfig) -> int:
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in build(config).parameters())
    except RuntimeError as error:  # the size of a tensor has more than 63 bits
        raise RegardError(f"[model] has sizes that no tensor can have ({error}); lower them") from None


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:,.1f} GB"
