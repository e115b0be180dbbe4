"""What an adapter of a protocol hands to the application: its paths, and how it says an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, JsonValue, ValidationError
from starlette.responses import JSONResponse, Response

from regard.errors import cut
from regard.serve.failures import ServeError, refused

Shape = Callable[[ServeError], Response]  # an error as a protocol says it; headers are added by the application


def plain(failure: ServeError) -> Response:
    """The shape of regard's own paths: {"error": "a sentence"}."""
    return JSONResponse({"error": failure.sentence}, failure.status)


@dataclass(frozen=True)
class Protocol:
    """Paths that one kind of client asks. `own_keys`: the adapter finds the API key and calls `server.keys.admit`.
    That there is nothing at a path that begins with `below` is said in the shape of this protocol."""

    router: APIRouter
    shape: Shape = plain
    own_keys: bool = False
    free: frozenset[str] = field(default_factory=frozenset)  # paths that need no key
    below: str | None = None


ModelT = TypeVar("ModelT", bound=BaseModel)
KIND = re.compile(r"str|list\[.*\]|function-.*")  # what pydantic adds to the place of a value of several kinds


async def body_of(request: Request, kind: type[ModelT]) -> ModelT:
    """The body of a request, checked; what is wrong with it is said by key."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != "application/json":
        raise refused("send JSON, with Content-Type: application/json", 415)
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise _wrong(error) from None


def _wrong(error: ValidationError) -> ServeError:
    """The first mistake of a request; where a value may be of several kinds, what each of them would be."""
    every = [
        (".".join(str(part) for part in each["loc"] if not KIND.fullmatch(str(part))), each["msg"], each["type"])
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    where, said, kind = every[0]
    if kind == "json_invalid":
        return refused(f"the request is not JSON in UTF-8 ({said.removeprefix('Invalid JSON: ')})")
    several = dict.fromkeys(message for place, message, _ in every if place == where)
    return refused(f"{cut(where) or 'the request'}: {', or: '.join(several)}", 422, field=cut(where) or None)


def takes(kind: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI says of a path that reads its body with `body_of`."""
    schema = kind.model_json_schema()
    found = {"application/json": {"schema": _inlined(schema, schema.pop("$defs", {}))}}
    return {"requestBody": {"content": found, "required": True}}


def _inlined(schema: Any, named: Mapping[str, Any]) -> Any:
    """A schema with the parts that it refers to by name in their places."""
    if isinstance(schema, list):
        return [_inlined(each, named) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(named[schema["$ref"].rpartition("/")[2]], named)
    return {key: _inlined(value, named) for key, value in schema.items()}


async def json_of(request: Request) -> JsonValue:
    """The JSON of a request; what is none is refused. The size of the body was checked before."""
    try:
        found: JsonValue = json.loads((await request.body()).decode(), parse_constant=_no_constant)
        return found
    except (ValueError, RecursionError):
        raise refused("the request is not JSON; send UTF-8 such as {}") from None


async def object_of(request: Request) -> dict[str, JsonValue]:
    """The JSON object of a request."""
    found = await json_of(request)
    if not isinstance(found, dict):
        raise refused("the request must be a JSON object")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def answer(content: object, *, headers: Mapping[str, str] | None = None) -> Response:
    """JSON with status 200."""
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise ServeError(500, "failed", "the model answered with a number that JSON cannot hold") from None
    return Response(text.encode("utf-8", "replace"), media_type="application/json", headers=headers)
