"""The step protocol: all that decoding knows of a model, and what decoding gives back.

    memory = model.encode(source)                       source (B, S) → whatever the model wants to remember
    state = model.start(memory)                         B rows
    logits, state = model.step(token, state)            token (B,) → logits (B, V)
    state = state.reorder(rows)                         repeat, permute or drop rows

The first step reads BOS, unless the model goes on from a prompt (`Prompted`).

B rows  S source positions  V vocabulary  N rows alive now  T tokens of an answer
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from regard.layers.padding import row_lengths
from regard.special import OWN, Special


class State(Protocol):
    """What a model remembers of the answers begun so far, one row each."""

    def reorder(self, rows: Tensor) -> Self:
        """The state whose row i is row `rows[i]` of this one. rows (B',) int64, with repetitions and omissions."""
        ...


MemoryT = TypeVar("MemoryT")
ReadT = TypeVar("ReadT", contravariant=True)  # a memory that is only read
StateT = TypeVar("StateT", bound=State)


class Model(Protocol[MemoryT, StateT]):
    """A model that answers one token at a time.

    The logits of a step may be overwritten by whoever asked for them, and are good until the next step.
    """

    @property
    def special(self) -> Special:
        """The special ids of its vocabulary."""
        ...

    @property
    def alignment(self) -> str:
        """Path of the module whose weights (B, H, Q, S) align the answer with the source, "" if there is none."""
        ...

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> MemoryT:
        """Read the source once. source (B, S), padded with PAD; lengths (B,)."""
        ...

    def start(self, memory: MemoryT) -> StateT:
        """The state before the first token."""
        ...

    def step(self, token: Tensor, state: StateT) -> tuple[Tensor, StateT]:
        """Say what may follow `token`. token (B,) int64 → logits (B, V) and the state after it."""
        ...


@runtime_checkable
class Prompted(Protocol[ReadT]):
    """What a model that goes on from a prompt has beside the steps."""

    def first(self, memory: ReadT) -> Tensor:
        """The token that the first step reads: the last of each prompt, which `start` has read up to there. (B,)"""
        ...


class PromptedModel(Model[MemoryT, StateT], Prompted[MemoryT], Protocol[MemoryT, StateT]):
    """A model of torch's that goes on from a prompt."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights, whose device is where it computes."""
        ...


@runtime_checkable
class Aligned(Protocol):
    """A model whose answers can be aligned with their sources, unless its path is empty."""

    @property
    def special(self) -> Special:
        """As that of `Model`."""
        ...

    @property
    def alignment(self) -> str:
        """As that of `Model`."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One answer: tokens without BOS and EOS, the score it was ranked by, log p of each token and of EOS if reached."""

    tokens: tuple[int, ...]
    score: float
    logprobs: tuple[float, ...]


def source_lengths(source: Tensor, lengths: Tensor | None, *, special: Special = OWN) -> Tensor:
    """lengths (B,), counted from the padding of source (B, S) when they are not given."""
    return row_lengths(source, lengths, pad=special.pad)


def first_token(model: Model[MemoryT, StateT], memory: MemoryT, *, rows: int, device: torch.device) -> Tensor:
    """The token that the first step reads: the last of a prompt, where the model goes on from one, or else BOS. (B,)"""
    if isinstance(model, Prompted):
        return model.first(memory)
    return torch.full((rows,), model.special.bos, device=device)


def modules_of(model: object) -> list[nn.Module]:
    """The model and all its parts; none of a model that is not torch's."""
    return list(model.modules()) if isinstance(model, nn.Module) else []


@contextmanager
def evaluation(model: object, *, gradients: bool = False, modules: Sequence[nn.Module] | None = None) -> Iterator[None]:
    """No dropout, and no gradients unless asked for, while the `with` lasts; then all modules are as before.

    To find the modules of a model takes as long as a few layers of a step: whoever asks often keeps them.
    """
    learning = [module for module in (modules_of(model) if modules is None else modules) if module.training]
    for module in learning:
        module.training = False
    try:
        with torch.inference_mode(not gradients):
            yield
    finally:
        for module in learning:
            module.training = True
