"""The API of OpenAI: /v1/completions, /v1/embeddings and /v1/models.

A completion is drawn at random unless `temperature` is 0, as its clients expect. With `stream`, one answer to one
prompt comes in pieces; several answers, or answers with `logprobs`, come whole, each as one piece.
"""

from __future__ import annotations

import base64
import json
import secrets
import struct
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from starlette.responses import JSONResponse, Response, StreamingResponse

from regard.serve.failures import ServeError, refused
from regard.serve.protocol import Protocol, answer, body_of, takes
from regard.serve.registry import Entry
from regard.serve.server import Answered, Server

COLDEST = 1e-3  # a temperature below this takes the most probable token
SEEDS = 1 << 31
KINDS = {
    "invalid": "invalid_request_error",
    "no_key": "authentication_error",
    "wrong_key": "authentication_error",
    "forbidden": "permission_error",
    "not_found": "not_found_error",
    "overloaded": "rate_limit_error",
    "failed": "server_error",
    "unavailable": "unavailable_error",
    "timeout": "timeout_error",
}
CODES = {"wrong_key": "invalid_api_key", "no_key": "invalid_api_key", "overloaded": "rate_limit_exceeded"}

Texts = str | list[str] | list[int] | list[list[int]]


class StreamOptions(BaseModel):
    """What a stream tells at its end."""

    include_usage: bool = False
    include_obfuscation: bool = False


class Body(BaseModel):
    """A request. A field that is null is as one that is left out."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: JsonValue) -> JsonValue:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


class Completion(Body):
    """A request for the continuation of prompts."""

    model: str
    prompt: Texts
    max_tokens: Annotated[int, Field(ge=0)] = 16
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(ge=0, le=1)] = 1.0
    n: Annotated[int, Field(ge=1, le=128)] = 1
    best_of: Annotated[int, Field(ge=1, le=128)] | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    echo: bool = False
    seed: int | None = None
    user: str | None = None
    suffix: str | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[str, float] | None = None


class Embedding(Body):
    """A request for the vectors of texts."""

    model: str
    input: Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = None
    user: str | None = None


def error_of(failure: ServeError) -> dict[str, JsonValue]:
    """An error as its clients read it, in an answer or in a stream."""
    code = CODES.get(failure.reason) or ("model_not_found" if failure.reason == "not_found" else None)
    kind = KINDS[failure.reason]
    return {"error": {"message": failure.sentence, "type": kind, "param": failure.field, "code": code}}


def shape(failure: ServeError) -> Response:
    status = {422: 400}.get(failure.status, failure.status)
    status = 401 if failure.reason == "wrong_key" else status
    return JSONResponse(error_of(failure), status)


def protocol(server: Server) -> Protocol:
    router = APIRouter(tags=["OpenAI"])
    started = int(time.time())

    def described(entry: Entry) -> dict[str, JsonValue]:
        return {"id": entry.name, "object": "model", "created": started, "owned_by": "regard"}

    @router.get("/v1/models")
    async def models() -> Response:
        """The models."""
        return answer({"object": "list", "data": [described(entry) for entry in server.registry]})

    @router.get("/v1/models/{model}")
    async def model(model: str) -> Response:
        """One model."""
        return answer(described(server.registry.find(model)))

    @router.post("/v1/completions", openapi_extra=takes(Completion))
    async def completions(request: Request) -> Response:
        """How prompts go on."""
        body = await body_of(request, Completion)
        asked = Asked(server, _doing(server, body.model, "text-generation"), body)
        if not body.stream:
            return answer(await asked.whole())
        events = asked.events()
        first = await anext(events)  # what fails before anything was said is an error of its own
        return StreamingResponse(_after(first, events), media_type="text/event-stream")

    @router.post("/v1/embeddings", openapi_extra=takes(Embedding))
    async def embeddings(request: Request) -> Response:
        """The vectors of texts."""
        body = await body_of(request, Embedding)
        entry = _doing(server, body.model, "feature-extraction")
        found = await server.ask(entry.name, _texts(body.input, "input"))
        data = [_embedding(place, each, body) for place, each in enumerate(found)]
        read = sum(each.read for each in found)
        usage = {"prompt_tokens": read, "total_tokens": read}
        return answer({"object": "list", "data": data, "model": entry.name, "usage": usage})

    return Protocol(router, shape=shape, below="/v1/")


def _doing(server: Server, name: str, pipeline: str) -> Entry:
    """The model of this name, if it can do what is asked."""
    entry = server.registry.find(name)
    if entry.facts.pipeline != pipeline:
        sentence = f"model {entry.name!r} answers with {entry.facts.answers}; it is for {entry.facts.pipeline}"
        raise refused(sentence, field="model")
    return entry


def _texts(given: Texts, name: str) -> list[str]:
    texts = [given] if isinstance(given, str) else [text for text in given if isinstance(text, str)]
    if not isinstance(given, str) and len(texts) != len(given):
        raise refused(f"{name}: numbers of tokens are not read; give texts", field=name)
    if not texts:
        raise refused(f"{name}: give a text, or a list of texts", field=name)
    return texts


def _embedding(place: int, answered: Answered, body: Embedding) -> dict[str, JsonValue]:
    vector = [float(str(number)) for number in answered.answer] if isinstance(answered.answer, list) else []
    if body.dimensions not in (None, len(vector)):
        raise refused(f"dimensions: the vectors have {len(vector)} numbers; leave it out", field="dimensions")
    packed = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    value: JsonValue = packed if body.encoding_format == "base64" else list[JsonValue](vector)
    return {"object": "embedding", "index": place, "embedding": value}


async def _after(first: str, others: AsyncIterator[str]) -> AsyncIterator[str]:
    """A stream whose first event was waited for. An error in it is an event; nothing comes after it."""
    yield first
    try:
        async for event in others:
            yield event
    except ServeError as failure:
        yield _event(error_of(failure))


def _event(content: Mapping[str, JsonValue] | str) -> str:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n"


@dataclass(frozen=True)
class Said:
    """A continuation: its text, how many tokens it has, and why it ended."""

    text: str
    tokens: int
    reason: Literal["stop", "length"]


class Asked:
    """One request for completions."""

    def __init__(self, server: Server, entry: Entry, body: Completion) -> None:
        self.server, self.entry, self.body = server, entry, body
        self.prompts = _texts(body.prompt, "prompt")
        self.head: dict[str, JsonValue] = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": entry.name,
        }
        self._check()
        self.options = self._options()

    def _check(self) -> None:
        body = self.body
        for name in ("suffix", "logit_bias", "presence_penalty", "frequency_penalty"):
            if getattr(body, name):
                raise refused(f"{name} is not supported; leave it out", field=name)
        if body.max_tokens == 0 and not body.echo:
            raise refused("max_tokens: 0 gives nothing to say; set echo, or at least 1", field="max_tokens")
        if body.best_of is not None and (body.best_of < body.n or body.stream):
            raise refused("best_of must be at least n, and cannot be streamed", field="best_of")
        if body.max_tokens > (most := self.server.limits.length):
            raise refused(f"max_tokens is {body.max_tokens}; this server allows at most {most}", field="max_tokens")
        if len(self.prompts) * body.n > self.server.limits.batch:
            sentence = f"{len(self.prompts) * body.n} answers were asked for; at most {self.server.limits.batch}"
            raise refused(sentence, field="n" if body.n > 1 else "prompt")

    @property
    def drawn(self) -> bool:
        return self.body.temperature >= COLDEST

    def _options(self) -> dict[str, JsonValue]:
        body, stop = self.body, self.body.stop
        options: dict[str, JsonValue] = {"max_length": body.max_tokens, "sample": self.drawn}
        if stops := [text for text in ([stop] if isinstance(stop, str) else stop or []) if text]:
            options["stop"] = list[JsonValue](stops)
        if not self.drawn:
            return {**options, "beam": 1}
        seed = secrets.randbelow(SEEDS) if body.seed is None else body.seed % (1 << 63)
        several = max(body.n, body.best_of or 1)
        return {
            **options,
            "temperature": body.temperature,
            "top_p": max(body.top_p, 1e-6),
            "seed": seed,
            "n_best": several,
        }

    async def whole(self) -> dict[str, JsonValue]:
        """The answer in one piece."""
        said, read = await self._said()
        choices = await self._choices(said)
        return {**self.head, "choices": list(choices), "usage": _usage(read, _spoken(said))}

    async def events(self) -> AsyncIterator[str]:
        """The answer as a stream of events."""
        body, total = self.body, list[tuple[int, int]]()
        if body.n > 1 or body.logprobs is not None or body.max_tokens == 0:
            said, read = await self._said()
            for choice in await self._choices(said):
                yield self._chunk([choice])
            total.append((read, _spoken(said)))
        else:
            for place, prompt in enumerate(self.prompts):
                async for event in self._pieces(place, prompt, total):
                    yield event
        if body.stream_options is not None and body.stream_options.include_usage:
            usage = _usage(sum(read for read, _ in total), sum(spoken for _, spoken in total))
            yield _event({**self.head, "choices": [], "usage": usage})
        yield _event("[DONE]")

    async def _pieces(self, place: int, prompt: str, total: list[tuple[int, int]]) -> AsyncIterator[str]:
        """The events of one answer; what was read and said is added to the total."""

        def piece(text: str, reason: str | None = None) -> str:
            return self._chunk([{"text": text, "index": place, "logprobs": None, "finish_reason": reason}])

        text = ""
        pieces = self.server.stream(self.entry.name, prompt, self.options)
        begun = False
        async for each in pieces:
            if not begun and self.body.echo:
                yield piece(prompt)
            begun = True
            text += each
            yield piece(each)
        read, whole = (len(each) for each in await self.server.tokenize(self.entry.name, [prompt, prompt + text]))
        total.append((read, whole - read))
        yield piece("" if begun or not self.body.echo else prompt, self._reason(whole - read))

    def _chunk(self, choices: Sequence[JsonValue]) -> str:
        options = self.body.stream_options
        usage: dict[str, JsonValue] = {"usage": None} if options is not None and options.include_usage else {}
        return _event({**self.head, "choices": list(choices), **usage})

    def _reason(self, tokens: int) -> Literal["stop", "length"]:
        return "length" if tokens >= self.body.max_tokens else "stop"

    async def _said(self) -> tuple[list[list[Said]], int]:
        """The continuations of each prompt, and how many tokens were read."""
        if self.body.max_tokens == 0:
            read = await self.server.tokenize(self.entry.name, self.prompts)
            return [[Said("", 0, "length")] * self.body.n for _ in self.prompts], sum(map(len, read))
        found = await self.server.ask(self.entry.name, self.prompts, self.options, detailed=True)
        said = [[self._one(row) for row in _rows(each)] for each in found]
        every = [(rows if self.drawn else rows * self.body.n)[: self.body.n] for rows in said]
        return every, sum(each.read for each in found)

    def _one(self, row: Mapping[str, JsonValue]) -> Said:
        tokens = row.get("tokens")
        size = len(tokens) if isinstance(tokens, list) else 0
        return Said(str(row["text"]), size, "length" if "truncated" in row else "stop")

    async def _choices(self, said: Sequence[Sequence[Said]]) -> list[dict[str, JsonValue]]:
        """The choices as they are told, numbered across the prompts."""
        found: list[dict[str, JsonValue]] = []
        for prompt, several in zip(self.prompts, said, strict=True):
            for each in several:
                found.append(
                    {
                        "text": prompt + each.text if self.body.echo else each.text,
                        "index": len(found),
                        "logprobs": await self._logprobs(prompt, each.text),
                        "finish_reason": each.reason,
                    }
                )
        return found

    async def _logprobs(self, prompt: str, said: str) -> dict[str, JsonValue] | None:
        """log p of each token, and of the most probable ones in its place, as the look page shows them.

        The text is read once more, as a whole; of a text of n tokens, the last n − 1 have a probability at least.
        """
        if self.body.logprobs is None or not prompt + said:
            return None
        whole, begin = prompt + said, 0 if self.body.echo else len(prompt)
        (tokens,) = await self.server.tokenize(self.entry.name, [whole])
        record = await self.server.look(self.entry.name, prompt, {"reference": said, "layer": 0})
        logprobs, ranked = record["answer"]["logprobs"][-len(tokens) :], record["answer"]["alternatives"]
        missing = len(tokens) - len(logprobs)
        rows = [
            (whole[token.begin : token.end], token.begin, place - missing)
            for place, token in enumerate(tokens)
            if token.end > begin
        ]
        some = self.body.logprobs
        return {
            "tokens": [text for text, _, _ in rows],
            "token_logprobs": [None if place < 0 else logprobs[place] for _, _, place in rows],
            "top_logprobs": [
                None if place < 0 else dict(ranked[len(ranked) - len(logprobs) + place][:some]) for _, _, place in rows
            ]
            if some
            else None,
            "text_offset": [at - (0 if self.body.echo else begin) for _, at, _ in rows],
        }


def _rows(answered: Answered) -> list[dict[str, JsonValue]]:
    return [row for row in answered.answer if isinstance(row, dict)] if isinstance(answered.answer, list) else []


def _spoken(said: Sequence[Sequence[Said]]) -> int:
    return sum(each.tokens for several in said for each in several)


def _usage(read: int, said: int) -> dict[str, JsonValue]:
    return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}
