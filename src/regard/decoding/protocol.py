"""The step protocol: all that decoding knows of a model, and what decoding gives back.

    memory = model.encode(source)                       source (B, S) → whatever the model wants to remember
    state = model.start(memory)                         B rows
    logits, state = model.step(token, state)            token (B,) → logits (B, V)
    state = state.reorder(rows)                         repeat, permute or drop rows

A model that goes on from a prompt has `first(memory)`, the token that its first step reads (B,): the last of the
prompt, which `start` has read up to there. The first step of all others reads BOS. A model whose vocabulary came from
elsewhere has `special`, its own special ids.

B rows  S source positions  V vocabulary  N rows alive now  T tokens of an answer
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

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
StateT = TypeVar("StateT", bound=State)


class Model(Protocol[MemoryT, StateT]):
    """A model that answers one token at a time.

    The logits of a step may be overwritten by whoever asked for them, and are good until the next step.
    """

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


@dataclass(frozen=True)
class Hypothesis:
    """One answer: tokens without BOS and EOS, the score it was ranked by, log p of each token and of EOS if reached."""

    tokens: tuple[int, ...]
    score: float
    logprobs: tuple[float, ...]


def source_lengths(source: Tensor, lengths: Tensor | None, *, special: Special = OWN) -> Tensor:
    """lengths (B,), counted from the padding of source (B, S) when they are not given."""
    return row_lengths(source, lengths, pad=special.pad)


def special_of(model: object) -> Special:
    """The special ids of a model: its own, or those that all vocabularies learned here share."""
    return getattr(model, "special", OWN)


def first_token(model: Any, memory: Any, *, rows: int, device: torch.device) -> Tensor:
    """The token that the first step reads: the last of a prompt, where the model goes on from one, or else BOS. (B,)"""
    if hasattr(model, "first"):
        first: Tensor = model.first(memory)
        return first
    return torch.full((rows,), special_of(model).bos, device=device)


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
