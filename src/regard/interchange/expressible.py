"""What CTranslate2 can express of a model, told from its recipe alone: nothing here is slow to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
# keys that models from elsewhere have: only what they are in models learned here can be expressed
FIXED: dict[str, Any] = {"scale": True, "output_bias": False, "special": OWN.model_dump(exclude_none=True)}


def obstacle(model: Mapping[str, Any]) -> str | None:
    """Why CTranslate2 cannot express the [model] of a recipe, as a sentence; None if it can."""
    kind = model.get("kind")
    if kind not in EXPRESSED["kind"]:
        return f'CTranslate2 cannot express model.kind = "{kind}"; of the kinds here it knows the transformer alone'
    for key, value in model.items():
        if key in FIXED and value == FIXED[key]:
            continue
        if key not in EXPRESSED and key not in OPTIONAL:
            return f"what model.{key} = {value!r} does has no translation to CTranslate2 yet"
        if EXPRESSED.get(key) and value not in EXPRESSED[key]:
            return f"CTranslate2 cannot express model.{key} = {value!r}, only {', '.join(EXPRESSED[key])}"
    missing = [key for key in EXPRESSED if key not in model]
    return f"recipe.toml does not say model.{missing[0]}, so it is not as regard wrote it" if missing else None


def reach(model: Mapping[str, Any]) -> int | None:
    """How many positions the model has, if they are learned; None where tables can be made as long as needed."""
    return int(model["maximum"]) if model["position"] == "learned" else None
