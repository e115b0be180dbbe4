"""Which engine answers a model directory. Torch is imported only where CTranslate2 does not give the same answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from regard.directory import ModelDirectory
from regard.engines.ctranslate2.offers import reason_for_torch
from regard.engines.ctranslate2.plans import ComputeType, Plan
from regard.errors import RegardError
from regard.tasks.base import Codec, RunOptions, Surface
from regard.tasks.surfaces import TextToTexts

if TYPE_CHECKING:
    from regard.engines.ctranslate2.engine import CTranslate2Engine

EngineName = Literal["auto", "torch", "ctranslate2"]


def without_torch(
    directory: ModelDirectory,
    surface: Surface[Any, Any],
    options: RunOptions,
    codec: Codec,
    *,
    wanted: EngineName,
    compute_type: ComputeType,
    plan: Plan | None = None,
) -> CTranslate2Engine | str:
    """CTranslate2 on a model directory, or the reason why torch has to answer. A `plan` is not measured."""
    if wanted == "torch":
        _refuse(compute_type, "--runtime torch was given")
        return "it was asked for"
    if "runtime" not in surface.options or not isinstance(surface, TextToTexts):
        return f"CTranslate2 does not answer with {surface.answers}"
    tokenizers = codec.texts()
    prefix = tuple(tokenizers.target.encode([options.prefix])[0]) if options.prefix else ()
    model = _table(directory.tables(), "model")
    reason = reason_for_torch(model, options.decoding, vocabulary=tokenizers.target.size, prefix=prefix)
    if reason is not None:
        if wanted == "ctranslate2":
            raise RegardError(f"--runtime ctranslate2 cannot answer this: {reason}; leave that option out to use torch")
        _refuse(compute_type, reason)
        return reason
    from regard.engines.ctranslate2.engine import CTranslate2Engine

    why = "it was asked for" if wanted == "ctranslate2" else "it gives the same answers faster"
    return CTranslate2Engine(directory, model, tokenizers, compute_type=compute_type, why=why, plan=plan)


def _table(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = tables.get(name, {})
    if not isinstance(found, dict):
        raise RegardError(f"recipe.toml: [{name}] must be a table; copy the model directory again")
    return found


def _refuse(compute_type: ComputeType, reason: str) -> None:
    if compute_type != "float32":
        raise RegardError(f"--compute-type {compute_type} is for CTranslate2, which does not answer here: {reason}")
