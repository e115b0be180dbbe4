"""How one of their architectures is one of ours: the settings of both, and a table of names.

A table says for each tensor in their file which of our parameters it is. It is read from left to right to import and
from right to left to export, and both copy numbers without touching them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel
from torch import Tensor

from regard.errors import RegardError
from regard.special import Special

Form = Literal["same", "transposed", "row"]
Tensors = Mapping[str, Tensor]

# the first name for each of ours is the one that is written
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class Name:
    """Their tensor, and our parameters: several, where theirs is ours one below the other.

    `transposed` is a matrix that stands the other way round there, `row` a vector that is a matrix of one row there.
    """

    theirs: str
    ours: tuple[str, ...]
    form: Form = "same"


def linear(theirs: str, *ours: str, form: Form = "same") -> list[Name]:
    """Weight and bias of a linear map, or of a norm."""
    return [
        Name(f"{theirs}.weight", tuple(f"{name}.weight" for name in ours), form),
        Name(f"{theirs}.bias", tuple(f"{name}.bias" for name in ours)),
    ]


@dataclass(frozen=True)
class HeadClass:
    """One of their classes that stands on a body, and does one of our tasks: its tensors, and what of ours it is.

    The names of ours are those of `models.heads.Headed`: `output`, and `encoder.` before what is the body's. `body` are
    the settings of the body that it depends on.
    """

    name: str
    task: Literal["classify", "tag", "answer"]
    names: tuple[Name, ...]
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Their config.json. Asking for what is not there, or for what we cannot do, is an error that names it."""

    values: Mapping[str, Any]
    where: str

    def get(self, key: str, default: Any = None) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def number(self, key: str) -> int:
        value = self.values.get(key)
        if not isinstance(value, int) or value < 1:
            raise RegardError(f"{self.where}: {key} is {value!r} and must be a whole number of at least 1")
        return value

    def activation(self, key: str, default: str) -> Any:
        name = self.get(key, default)
        if name not in ACTIVATIONS:
            raise RegardError(f"{self.where}: {key} is {name!r}, and regard knows {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[name]

    def require(self, **expected: Any) -> None:
        """Settings that change what is computed, with the only value that regard computes; absent is that value."""
        wrong = [
            f"{key} = {self.values[key]!r} (regard computes {value!r})"
            for key, value in expected.items()
            if self.values.get(key, value) != value
        ]
        if wrong:
            raise RegardError(f"{self.where} asks for what regard does not compute: {', '.join(wrong)}")


@dataclass(frozen=True)
class Architecture:
    """One of their model types.

    `prefix` begins the names of the body's tensors, but where the body alone is saved `bare` it is left out; `heads`
    begin the names of what stands beside it. `tops` are its classes for our tasks. `constant` matches tensors that say
    nothing (masks, positions counted from 0), `copies` names tensors that repeat another, and which. `prepare` gives a
    model of ours an equal form that has a counterpart there.
    """

    model_type: str
    kind: str
    accepted: Collection[str]
    prefix: str
    heads: tuple[str, ...]
    read: Callable[[Settings, Collection[str], Special], BaseModel]
    write: Callable[[Any], dict[str, Any]]
    names: Callable[[Any], list[Name]]
    constant: str
    bare: bool = True
    tops: tuple[HeadClass, ...] = ()
    copies: Callable[[Any], Mapping[str, str]] = field(default=lambda _config: {})
    prepare: Callable[[Any, Tensors], tuple[Any, Tensors]] = field(default=lambda config, weights: (config, weights))

    @property
    def classes(self) -> tuple[str, ...]:
        """Their classes that can be read."""
        return (*self.accepted, *(top.name for top in self.tops))

    def table(self, config: Any, top: HeadClass | None) -> list[Name]:
        """All tensors of the body, or of the body with one of the `tops` on it."""
        body = self.names(config)
        if top is None:
            return body
        held = {own for name in top.names for own in name.ours}
        inside = [replace(name, ours=tuple(f"encoder.{own}" for own in name.ours)) for name in body]
        return [*(name for name in inside if held.isdisjoint(name.ours)), *top.names]


def tokens_and_spans(family: str) -> tuple[HeadClass, HeadClass]:
    """The heads that all of the BERT family have alike: one linear map of each token."""
    return (
        HeadClass(f"{family}ForTokenClassification", "tag", tuple(linear("classifier", "output"))),
        HeadClass(f"{family}ForQuestionAnswering", "answer", tuple(linear("qa_outputs", "output"))),
    )


def written_activation(name: str) -> str:
    """What they call an activation of ours."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == name)


def refuse(config: BaseModel, target: str, **expected: Any) -> None:
    """Settings of ours that `target` cannot express, all in one sentence."""
    wrong = [
        f"{key} = {getattr(config, key)!r} (there it is {value!r})"
        for key, value in expected.items()
        if getattr(config, key) != value
    ]
    if wrong:
        raise RegardError(f"this model cannot be written as {target}, which has no {', '.join(wrong)}")
