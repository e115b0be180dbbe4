"""regard's own paths: POST /run/{model} for every task, GET /models and POST /admin/reload."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import Response

from regard.serve.failures import ServeError, refused
from regard.serve.protocol import Protocol, answer, body_of, takes
from regard.serve.server import Server


class Options(BaseModel):
    """The options of `regard run`. One that has no effect on the model's task is refused."""

    model_config = ConfigDict(extra="forbid")

    beam: Annotated[int, Field(ge=1)] | None = None
    n_best: Annotated[int, Field(ge=1)] | None = None
    sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    prefix: str | None = None
    stop: list[str] | None = None
    alignment: bool | None = None
    max_length: Annotated[int, Field(ge=1)] | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0)] | None = None
    replace_unknown: bool | None = None


class Run(BaseModel):
    """One input, or a list of inputs, as the model's task reads them."""

    model_config = ConfigDict(extra="forbid")

    input: JsonValue = None
    inputs: list[JsonValue] | None = None
    options: Options = Field(default_factory=Options)
    truncate: bool = False  # whether an input that is too long may be cut


PARAMETERS = {"parameters": [{"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}]}


def protocol(server: Server) -> Protocol:
    router = APIRouter(tags=["regard"])

    @router.get("/models")
    async def models() -> Response:
        """The models, by name, with what their tasks take and give."""
        return answer([{"name": entry.name, **entry.facts.model_dump(mode="json")} for entry in server.registry])

    @router.post("/run/{model}", openapi_extra={**takes(Run), **PARAMETERS})
    async def run(request: Request) -> Response:
        """What `regard run --json` prints: for one input an object, for `inputs` a list of them."""
        body = await body_of(request, Run)
        if (body.inputs is None) == ("input" not in body.model_fields_set):
            raise refused('give one of "input" and "inputs"')
        asked: list[JsonValue] = [body.input] if body.inputs is None else body.inputs
        options = body.options.model_dump(exclude_none=True)
        found = await server.ask(request.path_params["model"], asked, options, detailed=True, cut=body.truncate)
        rows = [{"input": given, "answers": each.answer} for given, each in zip(asked, found, strict=True)]
        return answer(rows[0] if body.inputs is None else rows)

    @router.post("/admin/reload")
    async def reload() -> Response:
        """Take over model directories that were replaced. This needs a key."""
        if not server.keys.known:
            raise ServeError(403, "forbidden", "this server has no keys, so that nobody may reload; send it SIGHUP")
        return answer(await server.reload())

    return Protocol(router)
