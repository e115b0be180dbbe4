"""How an architecture of Hugging Face's library corresponds to a kind of regard: settings, and a table of names.

A table says for each tensor in their file which of our parameters it is. It is read from left to right to import and
from right to left to export, and both copy numbers unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel
from torch import Tensor

from regard.errors import RegardError
from regard.interchange.files import shown
from regard.special import Special

Form = Literal["same", "transposed", "row"]
Shape = Literal["text", "tokens", "span"]
LARGEST = (1 << 31) - 1
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
    """Their tensor, and our parameters: several, where theirs is a stack of ours.

    `transposed` is a matrix that is stored transposed there, `row` a vector that is a matrix of one row there.
    With `axes`, our last axis is several there, of these lengths; −1 is the length that remains.
    """

    theirs: str
    ours: tuple[str, ...]
    form: Form = "same"
    axes: tuple[int, ...] | None = None


def linear(theirs: str, *ours: str, form: Form = "same") -> list[Name]:
    """Weight and bias of a linear map, or of a norm."""
    return [
        Name(f"{theirs}.weight", tuple(f"{name}.weight" for name in ours), form),
        Name(f"{theirs}.bias", tuple(f"{name}.bias" for name in ours)),
    ]


@dataclass(frozen=True)
class HeadClass:
    """One of their classes with a head on a body: its tensors, and the parameters of ours that they are.

    `shape` says what the head gives logits for: the whole text, each token, or the two ends of a span. The names of
    ours are those of `models.heads.Headed`: `output`, and `encoder.` before the names of the body. `body` holds the
    settings of the body that the head depends on.
    """

    name: str
    shape: Shape
    names: tuple[Name, ...]
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Their config.json. A value that is missing, of the wrong type or out of range is an error that names its key.

    `largest` is the longest axis among the tensors beside it: no size in the config can be larger.
    """

    values: Mapping[str, Any]
    where: str
    largest: int = LARGEST

    def get(self, key: str, default: Any = None) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def number(self, key: str, default: int | None = None, *, stored: bool = True) -> int:
        """A size. Unless `stored` is false, some tensor must have an axis that is at least as long."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
            raise self.wrong(key, f"must be a whole number from 1 to {LARGEST}")
        if stored and value > self.largest:
            raise self.wrong(key, f"the longest axis of a tensor in the weights has {self.largest} entries")
        return value

    def layers(self, key: str, tensors: Collection[str], stem: str) -> int:
        """A number of layers, of which each must have tensors: their names begin with `stem` and its number."""
        value = self.number(key, stored=False)
        found = {name[len(stem) :].partition(".")[0] for name in tensors if name.startswith(stem)}
        if value > len(found):
            raise self.wrong(key, f"the weights have tensors of {len(found)} layers only")
        return value

    def heads(self, key: str, *, width: str) -> int:
        """A number of heads, which must divide the width."""
        value = self.number(key, stored=False)
        if self.number(width) % value:
            raise self.wrong(key, f"must divide {width} = {self.number(width)}")
        return value

    def share(self, key: str, default: float) -> float:
        """A dropout: from 0 up to, but not including, 1."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise self.wrong(key, "must be a number from 0 to below 1")
        return float(value)

    def epsilon(self, key: str, default: float) -> float:
        """What a norm adds to the variance."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise self.wrong(key, "must be a number between 0 and 1")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "must be true or false")
        return value

    def token(self, key: str, vocabulary: int) -> int | None:
        """The id of a special token; of a list of ids, the first."""
        value = self.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < vocabulary:
            raise self.wrong(key, f"must be a token from 0 to {vocabulary - 1}")
        return value

    def activation(self, key: str, default: str) -> Any:
        name = self.get(key, default)
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise self.wrong(key, f"regard knows {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[name]

    def require(self, **expected: Any) -> None:
        """Settings that change what is computed, with the only value that regard computes; absent is that value."""
        wrong = [
            f"{key} = {shown(self.values[key])} (regard computes {value!r})"
            for key, value in expected.items()
            if self.values.get(key, value) != value
        ]
        if wrong:
            raise RegardError(f"{self.where} asks for what regard does not compute: {', '.join(wrong)}")

    def wrong(self, key: str, reason: str) -> RegardError:
        found = shown(self.values[key]) if key in self.values else "missing"
        return RegardError(f"{self.where}: {key} is {found}, and {reason}")


@dataclass(frozen=True)
class Architecture:
    """One of their model types.

    `prefix` begins the names of the body's tensors, except in the file of a body alone if `bare`; `heads` begin the
    names of the tensors outside the body. `tops` are its classes with a head. `constant` matches tensors without
    information (masks, positions counted from 0), `copies` maps each tensor that repeats another to that other.
    `prepare` gives a model of ours an equal form that has a counterpart there; `generation` is what
    generation_config.json says of the written model, if its class generates text. With `pictures`, it reads pictures.
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
    generation: Callable[[Any], dict[str, Any]] | None = None
    pictures: bool = False
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
        HeadClass(f"{family}ForTokenClassification", "tokens", tuple(linear("classifier", "output"))),
        HeadClass(f"{family}ForQuestionAnswering", "span", tuple(linear("qa_outputs", "output"))),
    )


def written_activation(name: str) -> str:
    """What they call an activation of ours."""
    for theirs, ours in ACTIVATIONS.items():
        if ours == name:
            return theirs
    raise RegardError(
        f"this model cannot be written for Hugging Face's library, which has no activation = {name!r} there; it has "
        f"{', '.join(dict.fromkeys(ACTIVATIONS.values()))}"
    )


def said_and_not_said(special: Special) -> dict[str, Any]:
    """The part of generation_config.json that is the same for every class: how answers end, and what they never say."""
    never = sorted(special.silent - {special.eos})
    ends = {"eos_token_id": special.eos, "pad_token_id": special.eos if special.pad is None else special.pad}
    return {**ends, "suppress_tokens": never} if never else dict(ends)


def refuse(config: BaseModel, target: str, **expected: Any) -> None:
    """Settings of ours that `target` cannot express, all in one sentence."""
    wrong = [
        f"{key} = {getattr(config, key)!r} (there it is {value!r})"
        for key, value in expected.items()
        if getattr(config, key) != value
    ]
    if wrong:
        raise RegardError(f"this model cannot be written as {target}, which has no {', '.join(wrong)}")
