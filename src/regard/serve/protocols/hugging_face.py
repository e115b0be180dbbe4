"""The APIs of Hugging Face's servers: text-embeddings-inference, and what `huggingface_hub.InferenceClient` asks.

POST / and POST /models/{model} do the model's own task, as transformers' pipelines do (`pipelines`).
POST /predict, /embed, /rerank, /similarity and /tokenize, and GET /info, are those of text-embeddings-inference; of
several models, the first that can do it is asked, or the one that the field `model` names.
"""

from __future__ import annotations

import base64
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import JSONResponse, Response

from regard.serve.failures import ServeError, refused
from regard.serve.protocol import Protocol, answer, body_of, object_of, takes
from regard.serve.protocols.pipelines import ALSO, EMPTY, Pipeline, Sentences, not_empty, similarities, vectors
from regard.serve.registry import Entry
from regard.serve.server import Server
from regard.version import __version__

KINDS = {"failed": "Backend", "timeout": "Backend", "unavailable": "Unhealthy", "overloaded": "Overloaded"}
STATUSES = {400: 422, 500: 424}


class Asking(BaseModel):
    """What requests of text-embeddings-inference have in common."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    truncate: bool | None = None  # whether a text that is too long may be cut


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


class Similarity(Asking):
    inputs: Sentences


class Tokenize(Asking):
    """One text or several."""

    inputs: str | list[str]
    add_special_tokens: bool = True


class Asked(BaseModel):
    """What a pipeline reads, and the parameters that it has."""

    inputs: JsonValue
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


TAKEN = takes(Asked)


def shape(failure: ServeError) -> Response:
    """{"error": "a sentence", "error_type": "Validation"}, with the codes of text-embeddings-inference."""
    empty = failure.reason == "invalid" and failure.sentence == EMPTY
    kind = "Empty" if empty else KINDS.get(failure.reason, "Validation")
    status = 400 if empty else STATUSES.get(failure.status, failure.status)
    return JSONResponse({"error": failure.sentence, "error_type": kind}, status)


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

    @router.post("/", openapi_extra=TAKEN)
    async def root(request: Request) -> Response:
        """What the first model does."""
        return await own_task(request, server.registry.find())

    @router.post("/models/{model}", openapi_extra=TAKEN)
    async def named(model: str, request: Request) -> Response:
        """What this model does."""
        return await own_task(request, server.registry.find(model))

    @router.post("/models/{model}/pipeline/{pipeline}", openapi_extra=TAKEN)
    async def pipeline(model: str, pipeline: str, request: Request) -> Response:
        """What this model does, if it is this."""
        entry = server.registry.find(model)
        if pipeline not in (entry.facts.pipeline, ALSO.get(entry.facts.pipeline)):
            raise refused(_other(entry, pipeline))
        return await own_task(request, entry)

    @router.get("/info")
    async def info(model: str | None = None) -> Response:
        """The first model, or the one that is named; the names of all, and the limits."""
        return answer(_info(server, server.registry.find(model)))

    @router.post("/predict", openapi_extra=takes(Predict))
    async def predict(request: Request) -> Response:
        """Every label with its probability."""
        body = await body_of(request, Predict)
        if body.raw_scores:
            raise refused("raw_scores: the model answers with probabilities alone; leave it out")
        entry = first("text-classification", body.model)
        nested = isinstance(body.inputs, list) and any(isinstance(each, list) for each in body.inputs)
        inputs = list(body.inputs) if nested else [body.inputs]
        not_empty(body.inputs)
        found = [each.answer for each in await server.ask(entry.name, inputs, cut=bool(body.truncate))]
        return answer(found if nested else found[0])

    @router.post("/embed", openapi_extra=takes(Embed))
    async def embed(request: Request) -> Response:
        """The vectors of texts."""
        body = await body_of(request, Embed)
        if body.prompt_name is not None:
            raise refused("prompt_name: the model has no prompts; leave it out")
        entry = first("feature-extraction", body.model)
        cut = bool(body.truncate)
        return answer(await vectors(server, entry, body.inputs, body.normalize, body.dimensions, cut=cut))

    @router.post("/similarity", openapi_extra=takes(Similarity))
    async def similarity(request: Request) -> Response:
        """How similar sentences are to another: the cosine of their vectors."""
        body = await body_of(request, Similarity)
        entry = first("feature-extraction", body.model)
        return answer(await similarities(server, entry, body.inputs, cut=bool(body.truncate)))

    @router.post("/rerank", openapi_extra=takes(Rerank))
    async def rerank(request: Request) -> Response:
        """The numbers of texts with their scores, the best answer to the query first."""
        body = await body_of(request, Rerank)
        if body.raw_scores:
            raise refused("raw_scores: the model answers with scores of its own; leave it out")
        entry = first("text-ranking", body.model)
        not_empty(body.texts)
        asked = {"query": body.query, "texts": body.texts}
        (found,) = await server.ask(entry.name, [asked], cut=bool(body.truncate))
        return answer(_ranked(found.answer, with_text=body.return_text))

    @router.post("/tokenize", openapi_extra=takes(Tokenize))
    async def tokenize(request: Request) -> Response:
        """The tokens of texts. Tokens that a model adds around a text are not among them."""
        body = await body_of(request, Tokenize)
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        not_empty(texts)
        found = await server.tokenize(server.registry.find(body.model).name, texts)
        return answer(
            [
                [{"id": t.number, "text": t.name, "special": False, "start": t.begin, "stop": t.end} for t in tokens]
                for tokens in found
            ]
        )

    return Protocol(router, shape=shape)


def _other(entry: Entry, pipeline: str) -> str:
    return f"model {entry.name!r} does {entry.facts.pipeline}, and not {pipeline[:80]}"


async def _body(request: Request, entry: Entry) -> dict[str, JsonValue]:
    """JSON, or a picture as it is."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if entry.facts.pipeline.startswith("image-") and not kind.endswith("json"):
        content = base64.b64encode(await request.body()).decode()
        return {"inputs": content}
    return await object_of(request)


def _ranked(rows: JsonValue, *, with_text: bool) -> list[dict[str, JsonValue]]:
    wanted = ("index", "score", "text") if with_text else ("index", "score")
    return (
        [{name: row[name] for name in wanted} for row in rows if isinstance(row, dict)]
        if isinstance(rows, list)
        else []
    )


def _info(server: Server, entry: Entry) -> dict[str, JsonValue]:
    limits = server.limits
    kinds = {"feature-extraction": "embedding", "text-ranking": "reranker"}
    return {
        "model_id": entry.name,
        "models": [each.name for each in server.registry],
        "model_sha": None,
        "model_dtype": "float32",
        "model_type": {kinds.get(entry.facts.pipeline, "classifier"): {}},
        "model_pipeline_tag": entry.facts.pipeline,
        "max_concurrent_requests": limits.queue,
        "max_input_length": entry.facts.whole,
        "max_batch_tokens": None,
        "max_batch_requests": None,
        "max_client_batch_size": limits.batch,
        "auto_truncate": False,
        "tokenization_workers": server.pool.count,
        "version": __version__,
        "sha": None,
        "docker_label": None,
    }
