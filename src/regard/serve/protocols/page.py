"""The page for people: type a text, see the answer and what the model looked at. GET / and POST /look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from typing import Protocol as Interface

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import HTMLResponse, Response

from regard.look import page
from regard.serve.failures import refused
from regard.serve.protocol import Protocol, answer, body_of, takes
from regard.serve.server import Server

FARTHEST = 1 << 31  # token


class Look(BaseModel):
    """What to look at: `text`, a line as one types it for `regard look`, or `input`, as /run takes it."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    text: str | None = None
    input: JsonValue = None
    model: str | None = None  # the first one by default
    first: int | None = Field(None, ge=0, lt=FARTHEST, strict=True, alias="from")
    layer: int | None = Field(None, strict=True)
    head: int | None = Field(None, strict=True)
    reference: str | None = None


class Looks(Interface):
    """What the page asks: the models that can be chosen, and records."""

    def models(self) -> Sequence[Mapping[str, JsonValue]]: ...
    @property
    def pairs(self) -> bool: ...
    async def look(self, asked: Look) -> Sequence[Mapping[str, Any]]: ...


class ServedLooks:
    """Looks into the models of a server."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def models(self) -> list[dict[str, JsonValue]]:
        return [
            {
                "name": entry.name,
                "picture": entry.facts.pipeline.startswith("image-"),
                "pair": entry.facts.two_texts,
                "examples": typed(entry.facts.example),
            }
            for entry in self.server.registry
        ]

    @property
    def pairs(self) -> bool:
        return any(entry.facts.two_texts for entry in self.server.registry)

    async def look(self, asked: Look) -> list[dict[str, Any]]:
        view = asked.model_dump(include={"layer", "head", "reference", "first"}, exclude_none=True)
        given = asked.input if asked.text is None else asked.text
        return [await self.server.look(asked.model, given, view, line=asked.text is not None)]


def typed(example: str) -> list[JsonValue]:
    """What somebody types into the boxes of the page: "a text" or $'a query\\ta text' as a shell has it."""
    return list(example.removeprefix("$").strip("'\"").split("\\t"))


def protocol(server: Server) -> Protocol:
    """The page of a server."""
    return page_of(ServedLooks(server))


def page_of(looks: Looks) -> Protocol:
    """The page that asks for these looks."""
    router = APIRouter(tags=["page"])

    @router.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def people() -> Response:
        return HTMLResponse(page.render([], live=True, pairs=looks.pairs, models=looks.models()))

    @router.post("/look", openapi_extra=takes(Look))
    async def look(request: Request) -> Response:
        """What a model looks at when it answers: the records that the page shows."""
        body = await body_of(request, Look)
        if (body.text is None) == (body.input is None):
            raise refused('give one of "text" and "input"')
        if body.text is not None and not body.text.strip():
            raise refused("the text is empty; type something to look at")
        return answer(await looks.look(body))

    return Protocol(router)
