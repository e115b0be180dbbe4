"""What CTranslate2 can express of a model, decided by its recipe alone. This module imports nothing slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.errors import cut, shown
from regard.special import OWN

# every key of [model], and the values that can be expressed where not every value can
EXPRESSED: dict[str, tuple[str, ...]] = {
    "kind": ("transformer",),
    "position": ("none", "sinusoidal", "learned", "shaw", "rotary", "alibi"),
    "wiring": ("post_norm", "pre_norm", "deep_norm"),
    "activation": ("relu", "gelu", "swiglu"),
    **dict.fromkeys(("layers", "width", "heads", "hidden", "dropout", "maximum", "tied"), ()),
}
OPTIONAL = ("encoder_layers", "decoder_layers")
WHOLE = ("layers", "width", "heads", "hidden", "maximum", *OPTIONAL)  # keys whose values are whole numbers from 1 on
# keys with one value that can be expressed
FIXED: dict[str, Any] = {
    "scale": True,
    "output_bias": False,
    "special": OWN.model_dump(exclude_none=True),
    "attention": "exact",
    "decoder_attention": "exact",
}


def obstacle(model: Mapping[str, Any]) -> str | None:
    """Why CTranslate2 cannot express the [model] of a recipe, as a sentence; None if it can.

    An invalid value is a reason too: torch then answers, and reports what is wrong with it.
    """
    kind = model.get("kind")
    if kind not in EXPRESSED["kind"]:
        return (
            f'CTranslate2 cannot express model.kind = "{cut(kind)}"; of the kinds here it knows the transformer alone'
        )
    for key, value in model.items():
        if key in FIXED and value == FIXED[key]:
            continue
        if key not in EXPRESSED and key not in OPTIONAL:
            return f"what model.{key} = {shown(value)} does has no translation to CTranslate2 yet"
        if EXPRESSED.get(key) and value not in EXPRESSED[key]:
            return f"CTranslate2 cannot express model.{key} = {shown(value)}, only {', '.join(EXPRESSED[key])}"
        if key in WHOLE and not (type(value) is int and value > 0):
            return f"model.{key} = {shown(value)} is not a whole number of at least 1"
    if missing := [key for key in EXPRESSED if key not in model]:
        return f"recipe.toml does not say model.{missing[0]}, so it is not as regard wrote it"
    if not isinstance(model["tied"], bool) or not isinstance(model["dropout"], int | float):
        return "model.tied is not true or false, or model.dropout is not a number"
    if model["width"] % model["heads"]:
        return f"model.width = {model['width']} cannot be divided among model.heads = {model['heads']}"
    return None


def reach(model: Mapping[str, Any]) -> int | None:
    """How many positions the model has, if they are learned; None where tables can be made as long as needed."""
    return int(model["maximum"]) if model["position"] == "learned" else None
