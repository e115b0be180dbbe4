"""Which engine answers a model directory. Torch is imported only where CTranslate2 does not give the same answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from regard.directory import ModelDirectory
from regard.engines.ctranslate2.plans import Plan, Precision
from regard.engines.ctranslate2.precision import EXACT, Form, kept, switches_of
from regard.engines.ctranslate2.switches import set_here
from regard.engines.light import AnyLightEngine
from regard.errors import RegardError
from regard.interchange.expressible import obstacle
from regard.tasks.base import Codec, RunOptions, Surface
from regard.tasks.reading import ReadsRows
from regard.tasks.surfaces import Prompt, TextToTexts

EngineName = Literal["auto", "torch", "ctranslate2"]
SERVED = ((ReadsRows, "bert"), (Prompt, "gpt"), (TextToTexts, "transformer"))  # the kind of model behind each surface


def without_torch(
    directory: ModelDirectory,
    surface: Surface[Any, Any],
    options: RunOptions,
    codec: Codec,
    *,
    wanted: EngineName,
    compute_type: Precision,
    plan: Plan | None = None,
) -> AnyLightEngine | str:
    """CTranslate2 on a model directory, or the reason why torch has to answer.

    A `plan` is not measured; its precision is the one that is asked for here.
    """
    if wanted == "torch":
        refuse(compute_type, "--runtime torch was given")
        return "it was asked for"
    if "runtime" not in surface.options:
        return f"CTranslate2 does not answer with {surface.answers}"
    set_here(switches_of(directory))
    form = settled(directory, compute_type)
    planned = None if plan is None else replace(plan, compute_type=form.compute_type)
    found = engine_of(directory, surface, codec, form, planned)
    reason = found if isinstance(found, str) else found.reason(options)
    if reason is not None:
        if wanted == "ctranslate2":
            raise RegardError(f"--runtime ctranslate2 cannot answer this: {reason}; leave that option out to use torch")
        refuse(compute_type, reason)
        return reason
    assert not isinstance(found, str)
    if wanted == "ctranslate2":
        found.why = "it was asked for"
    elif compute_type == "measured" and form != EXACT:
        found.why = f"it gives answers that are as good faster, in {form}"
    else:
        found.why = "it gives the same answers faster"
    return found


def settled(directory: ModelDirectory, wanted: Precision) -> Form:
    """The form with the compute type that is asked for; "measured" is that of the model's record, if there is one."""
    if wanted != "measured":
        return Form(wanted)
    record = kept(directory)
    return EXACT if record is None else record.verdict


def engine_of(
    directory: ModelDirectory, surface: Surface[Any, Any], codec: Codec, form: Form, plan: Plan | None
) -> AnyLightEngine | str:
    """The engine for a surface, or the reason why the model cannot be expressed."""
    tables = directory.tables()
    model, data = _table(tables, "model"), _table(tables, "data")
    kind = next((kind for served, kind in SERVED if isinstance(surface, served)), None)
    if kind is None:
        return f"CTranslate2 does not answer with {surface.answers}"
    if reason := obstacle(model, (kind,)):
        return reason
    if _table(tables, "training").get("lora"):
        return "CTranslate2 cannot express the weights that training.lora adds"
    if isinstance(surface, ReadsRows):
        from regard.engines.ctranslate2.encoder import EncoderEngine, framing_of

        reading = surface.reading(data, codec, framing_of(model))
        return EncoderEngine(directory, model, reading, compute_type=form.compute_type, plan=plan)
    if isinstance(surface, Prompt):
        from regard.engines.ctranslate2.generator import GeneratorEngine
        from regard.tasks.write.prompts import Prompts

        prompts = Prompts(codec.texts().source, data.get("block") or model["maximum"])
        return GeneratorEngine(directory, model, prompts, compute_type=form.compute_type, plan=plan)
    from regard.engines.ctranslate2.engine import CTranslate2Engine

    return CTranslate2Engine(directory, model, codec.texts(), form=form, plan=plan)


def _table(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = tables.get(name, {})
    if not isinstance(found, dict):
        raise RegardError(f"recipe.toml: [{name}] must be a table; copy the model directory again")
    return found


def refuse(compute_type: Precision, reason: str) -> None:
    """Refuse a precision of CTranslate2 where torch has to answer."""
    if compute_type in ("int8", "auto"):
        raise RegardError(f"--compute-type {compute_type} is for CTranslate2, which does not answer here: {reason}")
