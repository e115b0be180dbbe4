"""The APIs of Hugging Face's servers: text-embeddings-inference, and what `huggingface_hub.InferenceClient` asks.

POST / and POST /models/{model} do the model's own task, as transformers' pipelines do: {"inputs", "parameters"}.
POST /predict, /embed, /rerank, /similarity and /tokenize, and GET /info, are those of text-embeddings-inference; of
several models, the first that can do it is asked, or the one that the field `model` names.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import JSONResponse, Response

from regard.serve.failures import ServeError, refused
from regard.serve.protocol import Protocol, answer, object_of
from regard.serve.registry import Entry
from regard.serve.server import Answered, Server
from regard.version import __version__

KINDS = {"failed": "Backend", "timeout": "Backend", "unavailable": "Unhealthy", "overloaded": "Overloaded"}
STATUSES = {400: 422, 500: 424}
# parameters of pipelines that change nothing here, because they say how a model is run and not what it answers
WITHOUT_EFFECT = {"clean_up_tokenization_spaces", "truncate", "truncation_direction", "wait_for_model", "use_cache"}
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


class Asking(BaseModel):
    """What requests of text-embeddings-inference have in common."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    truncate: bool | None = None


class Predict(Asking):
    """One text, a pair of texts, or a list of such lists."""

    inputs: str | list[str] | list[list[str]]
    raw_scores: bool = False


class Embed(Asking):
    """One text or several."""

    inputs: str | list[str]
    normalize: bool = True
    prompt_name: str | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None


class Rerank(Asking):
    """A query, and texts to be ordered."""

    query: str
    texts: list[str]
    raw_scores: bool = False
    return_text: bool = False


class Sentences(BaseModel):
    """A sentence, and others to be compared with it."""

    source_sentence: str
    sentences: list[str]


class Similarity(Asking):
    inputs: Sentences


class Tokenize(Asking):
    """One text or several."""

    inputs: str | list[str]
    add_special_tokens: bool = True


def shape(failure: ServeError) -> Response:
    """{"error": "a sentence", "error_type": "Validation"}, with the codes of text-embeddings-inference."""
    empty = failure.reason == "invalid" and failure.sentence == EMPTY
    kind = "Empty" if empty else KINDS.get(failure.reason, "Validation")
    status = 400 if empty else STATUSES.get(failure.status, failure.status)
    return JSONResponse({"error": failure.sentence, "error_type": kind}, status)


EMPTY = "`inputs` cannot be empty"


def protocol(server: Server) -> Protocol:
    router = APIRouter(tags=["Hugging Face"])

    def first(pipeline: str, named: str | None) -> Entry:
        """The model that is named, or the first that can do it."""
        able = server.registry.doing(pipeline)
        entry = server.registry.find(named) if named is not None else next(iter(able), None)
        if entry not in able or entry is None:
            raise refused(f"no model of this server does {pipeline}" if entry is None else _other(entry, pipeline))
        return entry

    async def own_task(request: Request, entry: Entry) -> Response:
        body = await _body(request, entry)
        return answer(await Pipeline(server, entry).answer(body))

    @router.post("/")
    async def root(request: Request) -> Response:
        """What the first model does."""
        return await own_task(request, server.registry.find())

    @router.post("/models/{model}")
    async def named(model: str, request: Request) -> Response:
        """What this model does."""
        return await own_task(request, server.registry.find(model))

    @router.post("/models/{model}/pipeline/{pipeline}")
    async def pipeline(model: str, pipeline: str, request: Request) -> Response:
        """What this model does, if it is this."""
        entry = server.registry.find(model)
        if pipeline not in (entry.facts.pipeline, ALSO.get(entry.facts.pipeline)):
            raise refused(_other(entry, pipeline))
        return await own_task(request, entry)

    @router.get("/info")
    async def info() -> Response:
        """The first model, and the limits."""
        return answer(_info(server))

    @router.post("/predict")
    async def predict(body: Predict) -> Response:
        """Every label with its probability."""
        if body.raw_scores:
            raise refused("raw_scores: the model answers with probabilities alone; leave it out")
        entry = first("text-classification", body.model)
        nested = isinstance(body.inputs, list) and any(isinstance(each, list) for each in body.inputs)
        inputs = list(body.inputs) if nested else [body.inputs]
        _not_empty(body.inputs)
        found = [each.answer for each in await server.ask(entry.name, inputs)]
        return answer(found if nested else found[0])

    @router.post("/embed")
    async def embed(body: Embed) -> Response:
        """The vectors of texts."""
        if body.prompt_name is not None:
            raise refused("prompt_name: the model has no prompts; leave it out")
        entry = first("feature-extraction", body.model)
        return answer(await _vectors(server, entry, body.inputs, body.normalize, body.dimensions))

    @router.post("/similarity")
    async def similarity(body: Similarity) -> Response:
        """How similar sentences are to another: the cosine of their vectors."""
        entry = first("feature-extraction", body.model)
        return answer(await _similarities(server, entry, body.inputs))

    @router.post("/rerank")
    async def rerank(body: Rerank) -> Response:
        """The numbers of texts with their scores, the best answer to the query first."""
        if body.raw_scores:
            raise refused("raw_scores: the model answers with scores of its own; leave it out")
        entry = first("text-ranking", body.model)
        _not_empty(body.texts)
        (found,) = await server.ask(entry.name, [{"query": body.query, "texts": body.texts}])
        return answer(_ranked(found.answer, with_text=body.return_text))

    @router.post("/tokenize")
    async def tokenize(body: Tokenize) -> Response:
        """The tokens of texts. Tokens that a model adds around a text are not among them."""
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        _not_empty(texts)
        found = await server.tokenize(server.registry.find(body.model).name, texts)
        return answer(
            [
                [{"id": t.number, "text": t.name, "special": False, "start": t.begin, "stop": t.end} for t in tokens]
                for tokens in found
            ]
        )

    return Protocol(router, shape=shape)


ALSO = {"feature-extraction": "sentence-similarity"}  # what a model can do beside its own task


def _other(entry: Entry, pipeline: str) -> str:
    return f"model {entry.name!r} does {entry.facts.pipeline}, and not {pipeline[:80]}"


def _not_empty(inputs: object) -> None:
    if not inputs:
        raise refused(EMPTY)


async def _body(request: Request, entry: Entry) -> dict[str, JsonValue]:
    """JSON, or a picture as it is."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if entry.facts.pipeline.startswith("image-") and not kind.endswith("json"):
        content = base64.b64encode(await request.body()).decode()
        return {"inputs": content}
    return await object_of(request)


async def _vectors(
    server: Server, entry: Entry, inputs: str | list[str], normalize: bool, dimensions: int | None
) -> list[list[float]]:
    _not_empty(inputs)
    texts = [inputs] if isinstance(inputs, str) else inputs
    found = [_numbers(each) for each in await server.ask(entry.name, texts)]
    if dimensions is not None and dimensions > len(found[0]):
        raise refused(f"dimensions: the vectors have {len(found[0])} numbers; ask for no more")
    cut = [vector[:dimensions] for vector in found]
    return [_of_length_one(vector) for vector in cut] if normalize else cut


async def _similarities(server: Server, entry: Entry, given: Sentences) -> list[float]:
    _not_empty(given.sentences)
    own, *others = await _vectors(server, entry, [given.source_sentence, *given.sentences], True, None)
    return [sum(a * b for a, b in zip(own, other, strict=True)) for other in others]


def _numbers(answered: Answered) -> list[float]:
    return [float(str(each)) for each in answered.answer] if isinstance(answered.answer, list) else []


def _of_length_one(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(number * number for number in vector))
    return [number / length for number in vector] if length else vector


def _ranked(rows: JsonValue, *, with_text: bool) -> list[dict[str, JsonValue]]:
    wanted = ("index", "score", "text") if with_text else ("index", "score")
    return (
        [{name: row[name] for name in wanted} for row in rows if isinstance(row, dict)]
        if isinstance(rows, list)
        else []
    )


def _info(server: Server) -> dict[str, JsonValue]:
    entry, limits = server.registry.find(), server.limits
    kinds = {"feature-extraction": "embedding", "text-ranking": "reranker"}
    return {
        "model_id": entry.name,
        "model_sha": None,
        "model_dtype": "float32",
        "model_type": {kinds.get(entry.facts.pipeline, "classifier"): {}},
        "model_pipeline_tag": entry.facts.pipeline,
        "max_concurrent_requests": limits.queue,
        "max_input_length": entry.facts.whole,
        "max_batch_tokens": None,
        "max_batch_requests": None,
        "max_client_batch_size": limits.batch,
        "auto_truncate": entry.facts.whole is None,  # else a long text is split
        "tokenization_workers": server.pool.count,
        "version": __version__,
        "sha": None,
        "docker_label": None,
    }


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
        return {"translation_text": _rows(found)[0]["text"]}

    return Plan(finish, options)


def _generation(_entry: Entry, parameters: Parameters) -> Plan:
    options, full = _generation_options(parameters), parameters.pop("return_full_text", False)
    number = parameters.pop("num_return_sequences", None)
    if full or parameters.pop("details", False) or parameters.pop("decoder_input_details", False):
        raise refused("return_full_text and details are not supported; /v1/completions has echo and logprobs")
    if number is not None:
        options["n_best"] = number

    def finish(found: JsonValue) -> JsonValue:
        return [{"generated_text": row["text"]} for row in _rows(found)]

    return Plan(finish, options)


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
        _not_empty(inputs)
        if name in ALSO and isinstance(inputs, dict) and "source_sentence" in inputs:
            return await _similarities(self.server, self.entry, _sentences(inputs))
        several = isinstance(inputs, list) and name in PLANS
        asked = inputs if isinstance(inputs, list) and several else [inputs]
        plan = PLANS.get(name, _as_it_is)(self.entry, parameters)
        if parameters:
            raise refused(f"{next(iter(parameters))[:80]} has no effect on a model for {name}; leave it out")
        found = await self.server.ask(self.entry.name, asked, plan.options)
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
