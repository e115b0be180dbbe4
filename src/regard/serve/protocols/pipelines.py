"""A model as a pipeline of transformers: {"inputs", "parameters"} to what the pipeline of its task returns.

Each pipeline has a plan: which options of `regard run` its parameters are, and what it returns of an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, JsonValue

from regard.serve.failures import refused
from regard.serve.registry import Entry
from regard.serve.server import Answered, Server

EMPTY = "`inputs` cannot be empty"
ALSO = {"feature-extraction": "sentence-similarity"}  # what a model can do beside its own task
# parameters of pipelines that change nothing here, because they say how a model is run and not what it answers
WITHOUT_EFFECT = {"clean_up_tokenization_spaces", "truncation_direction", "wait_for_model", "use_cache"}
GENERATION = {  # of transformers → of `regard run`
    "max_new_tokens": "max_length",
    "max_length": "max_length",
    "num_beams": "beam",
    "do_sample": "sample",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "stop_sequences": "stop",
    "no_repeat_ngram_size": "no_repeat_ngram",
}


class Sentences(BaseModel):
    """A sentence, and others to be compared with it."""

    source_sentence: str
    sentences: list[str]


def not_empty(inputs: object) -> None:
    if not inputs:
        raise refused(EMPTY)


async def vectors(
    server: Server, entry: Entry, inputs: str | list[str], normalize: bool, dimensions: int | None, *, cut: bool
) -> list[list[float]]:
    not_empty(inputs)
    texts = [inputs] if isinstance(inputs, str) else inputs
    found = [_numbers(each) for each in await server.ask(entry.name, texts, cut=cut)]
    if dimensions is not None and dimensions > len(found[0]):
        raise refused(f"dimensions: the vectors have {len(found[0])} numbers; ask for no more")
    shorter = [vector[:dimensions] for vector in found]
    return [_of_length_one(vector) for vector in shorter] if normalize else shorter


async def similarities(server: Server, entry: Entry, given: Sentences, *, cut: bool) -> list[float]:
    not_empty(given.sentences)
    own, *others = await vectors(server, entry, [given.source_sentence, *given.sentences], True, None, cut=cut)
    return [sum(a * b for a, b in zip(own, other, strict=True)) for other in others]


def _numbers(answered: Answered) -> list[float]:
    return [float(str(each)) for each in answered.answer] if isinstance(answered.answer, list) else []


def _of_length_one(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(number * number for number in vector))
    return [number / length for number in vector] if length else vector


@dataclass(frozen=True)
class Plan:
    """How one input is asked with given parameters, and what a pipeline returns of the answer."""

    finish: Callable[[JsonValue], JsonValue] = lambda found: found
    options: Mapping[str, JsonValue] = field(default_factory=dict)


Parameters = dict[str, JsonValue]  # what a plan reads is taken out
Planner = Callable[[Entry, Parameters], Plan]


def _as_it_is(_entry: Entry, _parameters: Parameters) -> Plan:
    return Plan()


def _translation(entry: Entry, parameters: Parameters) -> Plan:
    for place, name in enumerate(("src_lang", "tgt_lang")):
        wanted = parameters.pop(name, None)
        if wanted is not None and wanted not in entry.facts.languages[place : place + 1]:
            own = " to ".join(entry.facts.languages) or "languages that it does not name"
            raise refused(f"{name}: model {entry.name!r} translates from {own}")
    options = _generation_options(parameters)

    def finish(found: JsonValue) -> JsonValue:
        return _told("translation_text", _rows(found)[0])

    return Plan(finish, options)


def _generation(_entry: Entry, parameters: Parameters) -> Plan:
    options, full = _generation_options(parameters), parameters.pop("return_full_text", False)
    number = parameters.pop("num_return_sequences", None)
    if full or parameters.pop("details", False) or parameters.pop("decoder_input_details", False):
        raise refused("return_full_text and details are not supported; /v1/completions has echo and logprobs")
    if number is not None:
        options["n_best"] = number

    def finish(found: JsonValue) -> JsonValue:
        return [_told("generated_text", row) for row in _rows(found)]

    return Plan(finish, options)


def _told(name: str, row: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A text under the name that a pipeline has for it; one that was cut at `max_length` says so."""
    return {name: row["text"], **({"truncated": True} if "truncated" in row else {})}


def _labels(_entry: Entry, parameters: Parameters) -> Plan:
    most = _count(parameters)
    if parameters.pop("function_to_apply", "softmax") != "softmax":
        raise refused("function_to_apply: the model answers with probabilities; leave it out")
    return Plan(lambda found: list[JsonValue](_rows(found)[:most]))


def _tags(_entry: Entry, parameters: Parameters) -> Plan:
    strategy, ignored = parameters.pop("aggregation_strategy", None), parameters.pop("ignore_labels", None)
    if strategy not in (None, "none", "simple", "first", "average", "max"):
        raise refused("aggregation_strategy: give none, simple, first, average or max")
    unwanted = ignored if isinstance(ignored, list) else []

    def finish(found: JsonValue) -> JsonValue:
        rows = _rows(found)
        grouped = any("entity_group" in row for row in rows)
        if strategy == "none" and grouped:
            raise refused("aggregation_strategy: the model answers with whole entities; leave it out")
        if strategy not in (None, "none") and not grouped:
            rows = entities_of(rows)
        return [row for row in rows if row.get("entity", row.get("entity_group")) not in unwanted]

    return Plan(finish)


def _gaps(_entry: Entry, parameters: Parameters) -> Plan:
    most = _count(parameters)

    def finish(found: JsonValue) -> JsonValue:
        gaps = found if isinstance(found, list) else []
        if gaps and isinstance(gaps[0], list):
            return [gap[:most] for gap in gaps if isinstance(gap, list)]
        return gaps[:most]

    return Plan(finish)


def _span(_entry: Entry, parameters: Parameters) -> Plan:
    if _count(parameters) not in (None, 1):
        raise refused("top_k: the model answers with one part of the passage; leave it out")
    return Plan()


def _embedding(_entry: Entry, parameters: Parameters) -> Plan:
    normalize, dimensions = parameters.pop("normalize", None), _whole(parameters, "dimensions")
    if parameters.pop("encoding_format", "float") != "float":
        raise refused("encoding_format: give float; /v1/embeddings has base64")

    def finish(found: JsonValue) -> JsonValue:
        vector = _numbers(Answered(found))
        if dimensions is not None and dimensions > len(vector):
            raise refused(f"dimensions: the vectors have {len(vector)} numbers; ask for no more")
        cut = vector[:dimensions]
        return list[JsonValue](_of_length_one(cut) if normalize or dimensions is not None else cut)

    return Plan(finish)


PLANS: dict[str, Planner] = {
    "translation": _translation,
    "text-generation": _generation,
    "text-classification": _labels,
    "image-classification": _labels,
    "token-classification": _tags,
    "question-answering": _span,
    "fill-mask": _gaps,
    "feature-extraction": _embedding,
    "image-to-text": _generation,
    "text-ranking": _as_it_is,
}
ALWAYS_LISTED = {"translation", "text-classification", "feature-extraction"}  # even the result of one input


@dataclass(frozen=True)
class Pipeline:
    """A model as a pipeline of transformers: {"inputs", "parameters"} to what the pipeline of its task returns."""

    server: Server
    entry: Entry

    async def answer(self, body: Mapping[str, JsonValue]) -> object:
        inputs, parameters, name = body.get("inputs"), _parameters(body), self.entry.facts.pipeline
        not_empty(inputs)
        cut = parameters.pop("truncate", None) is True
        if name in ALSO and isinstance(inputs, dict) and "source_sentence" in inputs:
            return await similarities(self.server, self.entry, _sentences(inputs), cut=cut)
        several = isinstance(inputs, list) and name in PLANS
        asked = inputs if isinstance(inputs, list) and several else [inputs]
        plan = PLANS.get(name, _as_it_is)(self.entry, parameters)
        if parameters:
            raise refused(f"{next(iter(parameters))[:80]} has no effect on a model for {name}; leave it out")
        found = await self.server.ask(self.entry.name, asked, plan.options, cut=cut)
        results = [plan.finish(each.answer) for each in found]
        return results if several or name in ALWAYS_LISTED else results[0]


def _parameters(body: Mapping[str, JsonValue]) -> Parameters:
    """The parameters of a request; clients send those of vectors beside the inputs, and not inside."""
    given = body.get("parameters") or {}
    if not isinstance(given, dict):
        raise refused("parameters must be an object")
    beside = {name: value for name, value in body.items() if name not in ("inputs", "parameters", "options", "model")}
    both = {**beside, **given}
    return {name: value for name, value in both.items() if value is not None and name not in WITHOUT_EFFECT}


def _generation_options(parameters: Parameters) -> dict[str, JsonValue]:
    """The options of `regard run` for parameters of transformers' `generate`."""
    more = parameters.pop("generate_parameters", None) or {}
    if not isinstance(more, dict):
        raise refused("generate_parameters must be an object")
    parameters.update(more)
    found = {own: parameters.pop(name) for name, own in GENERATION.items() if name in parameters}
    if found.keys() & {"temperature", "top_k", "top_p"}:
        found.setdefault("sample", True)
    return found


def _count(parameters: Parameters) -> int | None:
    return _whole(parameters, "top_k")


def _whole(parameters: Parameters, name: str) -> int | None:
    """A whole number from 1 on."""
    value = parameters.pop(name, None)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise refused(f"{name} must be a whole number from 1 on")
    return value


def _rows(found: JsonValue) -> list[dict[str, JsonValue]]:
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _sentences(inputs: Mapping[str, JsonValue]) -> Sentences:
    try:
        return Sentences.model_validate(dict(inputs))
    except ValueError:
        raise refused('give {"source_sentence": "…", "sentences": ["…", "…"]}') from None


def entities_of(words: Sequence[Mapping[str, JsonValue]]) -> list[dict[str, JsonValue]]:
    """Tagged words as whole entities: words that follow each other, of one type, the later ones not tagged B-."""
    groups: list[list[Mapping[str, JsonValue]]] = []
    for word in words:
        prefix, kind = _tag(word)
        before = groups[-1][-1] if groups else None
        follows = before is not None and before["index"] == int(str(word["index"])) - 1 and _tag(before)[1] == kind
        if follows and prefix not in ("B", "S", "U"):
            groups[-1].append(word)
        else:
            groups.append([word])
    return [
        {
            "entity_group": _tag(group[0])[1],
            "score": sum(float(str(word["score"])) for word in group) / len(group),
            "word": " ".join(str(word["word"]) for word in group),
            "start": group[0]["start"],
            "end": group[-1]["end"],
        }
        for group in groups
    ]


def _tag(word: Mapping[str, JsonValue]) -> tuple[str, str]:
    """The prefix and the type of a tag: ("B", "PER") of B-PER, ("", "NOUN") of NOUN."""
    prefix, dash, kind = str(word["entity"]).partition("-")
    return (prefix, kind) if dash and prefix in ("B", "I", "E", "S", "L", "U") else ("", str(word["entity"]))
