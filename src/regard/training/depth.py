"""How deep in a model a parameter is: what is frozen, and what learns more slowly.

Of a model with N layers the embeddings have depth 0, layer n (from 1) has n, and what stands on top N + 1. The model
itself says where each of its parameters is.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from torch import nn

from regard.errors import RegardError


@runtime_checkable
class Layered(Protocol):
    """A model whose layers can be frozen from below, or can learn at rates of their own."""

    @property
    def layers(self) -> int:
        """How many layers stand on each other."""
        ...

    def depth_of(self, name: str) -> int:
        """How deep the parameter of that name is: 0 below the first layer, n in layer n (from 1), layers + 1 above."""
        ...


def freeze(model: nn.Module, amount: int | Literal["all"], *, lora: bool) -> None:
    """Let the embeddings and the first layers, so many or all, learn no more; with `lora`, its parts still learn."""
    if amount == 0 and not lora:
        return
    layered = _layered(model, wanted="training.lora" if lora else f"training.freeze={amount}")
    if isinstance(amount, int) and amount > layered.layers:
        raise RegardError(f'training.freeze={amount} and the model has {layered.layers} layers; freeze fewer, or "all"')
    lowest = layered.layers if amount == "all" or lora else amount
    for name, parameter in model.named_parameters():
        if layered.depth_of(name) <= lowest and not (lora and name.endswith((".up", ".down"))):
            parameter.requires_grad_(False)


def rates(model: nn.Module, decay: float) -> dict[str, float]:
    """By what factor the learning rate of each parameter is lower than that of the top: decay^(N + 1 − depth)."""
    names = [name for name, _ in model.named_parameters()]
    if decay == 1:
        return dict.fromkeys(names, 1.0)
    layered = _layered(model, wanted=f"training.layer_decay={decay:g}")
    return {name: decay ** (layered.layers + 1 - layered.depth_of(name)) for name in names}


def _layered(model: nn.Module, *, wanted: str) -> Layered:
    if isinstance(model, Layered):
        return model
    raise RegardError(
        f"{wanted} needs a model with one stack of layers, which {type(model).__name__} is not; leave it out"
    )
