"""What CTranslate2 can express of a model, decided by its recipe alone. This module imports nothing slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import cut, shown
from regard.special import OWN

EXACT = {"attention": "exact"}


@dataclass(frozen=True)
class Expressed:
    """The keys of the [model] of one kind. A key that is not listed has no translation."""

    choices: Mapping[str, Sequence[str]]  # must be stated: with the values that can be expressed
    sizes: Sequence[str]  # must be stated: whole numbers from 1 on
    flags: Sequence[str]  # must be stated: true or false
    numbers: Sequence[str] = ("dropout",)  # must be stated
    optional: Sequence[str] = ()  # sizes that need not be stated
    free: Sequence[str] = ()  # may have any value
    fixed: Mapping[str, Any] = field(default_factory=lambda: EXACT)  # one value can be expressed

    def stated(self) -> list[str]:
        """The keys that every recipe of this kind has."""
        return ["kind", *self.choices, *self.sizes, *self.flags, *self.numbers]

    def known(self) -> set[str]:
        return {*self.stated(), *self.optional, *self.free, *self.fixed}


EXPRESSED: dict[str, Expressed] = {
    "transformer": Expressed(
        choices={
            "position": ("none", "sinusoidal", "learned", "shaw", "rotary", "alibi"),
            "wiring": ("post_norm", "pre_norm", "deep_norm"),
            "activation": ("relu", "gelu", "swiglu"),
        },
        sizes=("layers", "width", "heads", "hidden", "maximum"),
        flags=("tied",),
        optional=("encoder_layers", "decoder_layers"),
        fixed={
            **EXACT,
            "decoder": "attention",
            "decoder_attention": "exact",
            "scale": True,
            "output_bias": False,
            "special": OWN.model_dump(exclude_none=True),
        },
    ),
    "gpt": Expressed(
        choices={
            "position": ("none", "sinusoidal", "learned", "rotary", "alibi"),
            "wiring": ("post_norm", "pre_norm", "deep_norm"),
            "activation": ("relu", "gelu", "gelu_tanh", "silu", "swiglu"),
            "norm": ("layer", "rms"),
        },
        sizes=("layers", "width", "heads", "maximum"),
        flags=("tied", "bias"),
        numbers=("dropout", "epsilon"),
        optional=("hidden", "key_value_heads", "vocabulary"),
        free=("special", "pooling", "body"),
    ),
    "bert": Expressed(
        choices={
            "position": ("none", "sinusoidal", "learned", "shaw", "rotary", "alibi"),
            "wiring": ("post_norm", "pre_norm", "deep_norm"),
            "activation": ("relu", "gelu", "gelu_tanh", "silu"),
            "pooler_activation": ("tanh", "relu"),
        },
        sizes=("layers", "width", "heads", "maximum"),
        flags=("pooler", "masked_words", "next_sentence"),
        numbers=("dropout", "epsilon", "offset", "segments"),
        optional=("hidden", "vocabulary"),
        free=("special", "pooling", "body"),
    ),
}


def obstacle(model: Mapping[str, Any], kinds: Sequence[str] = tuple(EXPRESSED)) -> str | None:
    """Why CTranslate2 cannot express the [model] of a recipe as one of these kinds, as a sentence; None if it can.

    An invalid value is a reason too: torch then answers, and reports what is wrong with it.
    """
    kind = model.get("kind")
    if kind not in kinds:
        return f'CTranslate2 cannot express model.kind = "{cut(kind)}" here, only {", ".join(kinds)}'
    expressed = EXPRESSED[str(kind)]
    for key, value in model.items():
        if key in expressed.fixed and value == expressed.fixed[key]:
            continue
        if key not in expressed.known() or key in expressed.fixed:
            return f"CTranslate2 cannot express model.{key} = {shown(value)}"
        if key in expressed.choices and value not in expressed.choices[key]:
            return f"CTranslate2 cannot express model.{key} = {shown(value)}, only {', '.join(expressed.choices[key])}"
        if key in (*expressed.sizes, *expressed.optional) and not (type(value) is int and value > 0):
            return f"model.{key} = {shown(value)} is not a whole number of at least 1"
        if key in expressed.flags and not isinstance(value, bool):
            return f"model.{key} = {shown(value)} is not true or false"
        if key in expressed.numbers and (isinstance(value, bool) or not isinstance(value, int | float)):
            return f"model.{key} = {shown(value)} is not a number"
    if missing := [key for key in expressed.stated() if key not in model]:
        return f"recipe.toml does not say model.{missing[0]}, so it is not as regard wrote it"
    if model["width"] % model["heads"]:
        return f"model.width = {model['width']} cannot be divided among model.heads = {model['heads']}"
    return None


def reach(model: Mapping[str, Any]) -> int | None:
    """How many positions the model has, if they are learned; None where tables can be made as long as needed."""
    return int(model["maximum"]) - int(model.get("offset", 0)) if model["position"] == "learned" else None
