"""The step protocol, which is all that decoding knows of a model, and the hypotheses that decoding returns.

    memory = model.encode(source)                       source (B, S) → any memory
    state = model.start(memory)                         B rows
    logits, state = model.step(token, state)            token (B,) → logits (B, V)
    state = state.reorder(rows)                         repeat, permute or drop rows

The first step reads BOS, unless the model continues a prompt (`Prompted`).

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
    """The state of a model for the answers begun so far, one row each."""

    def reorder(self, rows: Tensor) -> Self:
        """The state whose row i is row `rows[i]` of this one. rows (B',) int64, with repetitions and omissions."""
        ...


MemoryT = TypeVar("MemoryT")
ReadT = TypeVar("ReadT", contravariant=True)  # a memory that is only read
StateT = TypeVar("StateT", bound=State)


class Model(Protocol[MemoryT, StateT]):
    """A model that answers one token at a time.

    The caller may overwrite the logits of a step; they are valid until the next step.
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
        """One step: token (B,) int64 → the logits (B, V) of the next token, and the state after it."""
        ...


@runtime_checkable
class Prompted(Protocol[ReadT]):
    """A model that continues a prompt has this beside the steps."""

    def first(self, memory: ReadT) -> Tensor:
        """The token that the first step reads: the last of each prompt; `start` has read those before it. (B,)"""
        ...


class PromptedModel(Model[MemoryT, StateT], Prompted[MemoryT], Protocol[MemoryT, StateT]):
    """A torch module that continues a prompt."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights, on the device where it computes."""
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

    @property
    def ended(self) -> bool:
        """Whether it has reached EOS."""
        return len(self.logprobs) > len(self.tokens)


def source_lengths(source: Tensor, lengths: Tensor | None, *, special: Special = OWN) -> Tensor:
    """lengths (B,), counted from the padding of source (B, S) when they are not given."""
    return row_lengths(source, lengths, pad=special.pad)


def first_token(model: Model[MemoryT, StateT], memory: MemoryT, *, rows: int, device: torch.device) -> Tensor:
    """The token that the first step reads: the last of a prompt if the model continues one, otherwise BOS. (B,)"""
    if isinstance(model, Prompted):
        return model.first(memory)
    return torch.full((rows,), model.special.bos, device=device)


def modules_of(model: object) -> list[nn.Module]:
    """The model and all its parts; an empty list for a model that is not a torch module."""
    return list(model.modules()) if isinstance(model, nn.Module) else []


@contextmanager
def evaluation(model: object, *, gradients: bool = False, modules: Sequence[nn.Module] | None = None) -> Iterator[None]:
    """No dropout, and no gradients unless asked for, while the `with` lasts; then all modules are as before.

    Finding the modules of a model takes as long as a few layers of a step; pass `modules` when calling this often.
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
