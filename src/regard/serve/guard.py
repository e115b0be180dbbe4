"""What every request passes before its protocol sees it: host, origin, key, size and time; and what is counted of it.

A client that leaves cancels its request. Answers to errors have the shape of the protocol whose path was asked.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.failures import ServeError, refused, trouble
from regard.serve.metrics import Metrics, asked
from regard.serve.protocol import Protocol, Shape, plain
from regard.serve.settings import LOCAL, Limits, Settings

PORT = re.compile(r":\d*$", re.ASCII)  # at the end of a Host
READING = ("GET", "HEAD", "OPTIONS")
METHODS = "GET, POST, OPTIONS"
PAGES = ("/", "/docs", "/openapi.json")  # browsers open these without a key; the page asks for one when it is needed
Handler = Callable[[Request], Awaitable[Response]]
OLD = 600  # seconds for which a browser remembers what it may send


@dataclass
class Place:
    """The path that a request asks for: its name for the metrics, its protocol, and what answers each method there."""

    endpoint: str
    protocol: Protocol | None
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        return plain if self.protocol is None else self.protocol.shape


current: ContextVar[Place | None] = ContextVar("current", default=None)


class Places:
    """Which protocol has which path, and which functions are called without FastAPI in between.

    Those take a Request alone and return a Response. FastAPI's routing costs several times what they do.
    """

    def __init__(self, protocols: Iterable[Protocol]) -> None:
        self.fixed: dict[str, Place] = {}
        self.others: dict[str, tuple[re.Pattern[str], Place]] = {}
        self.nowhere: dict[str, Place] = {}  # by how a path begins
        for protocol in protocols:
            if protocol.below is not None:
                self.nowhere[protocol.below] = Place("other", protocol)
            for route in protocol.router.routes:
                if isinstance(route, APIRoute):
                    self._add(route, protocol)

    def _add(self, route: APIRoute, protocol: Protocol) -> None:
        found = self.others[route.path][1] if route.path in self.others else self.fixed.get(route.path)
        direct = dict.fromkeys(route.methods or (), route.endpoint) if _is_direct(route.endpoint) else {}
        place = Place(route.path, protocol, {**(found.handlers if found else {}), **direct})
        if "{" in route.path:
            self.others[route.path] = (compile_path(route.path)[0], place)
        else:
            self.fixed[route.path] = place

    def find(self, path: str) -> Place:
        if path in self.fixed:
            return self.fixed[path]
        for pattern, place in self.others.values():
            if found := pattern.match(path):
                return replace(place, parameters=found.groupdict())
        return next((place for start, place in self.nowhere.items() if path.startswith(start)), NOWHERE)


def _is_direct(endpoint: Callable[..., object]) -> bool:
    """Whether a function takes a Request alone and returns a Response."""
    signature = inspect.signature(endpoint, eval_str=True)
    taken = [each.annotation for each in signature.parameters.values()]
    return taken == [Request] and signature.return_annotation is Response


NOWHERE = Place("other", None)


@dataclass
class Guard:
    """An ASGI application around another."""

    inner: ASGIApp
    places: Places
    settings: Settings
    metrics: Metrics

    @property
    def limits(self) -> Limits:
        return self.settings.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        place = self.places.find(scope["path"])
        current.set(place)
        begun, headers = time.perf_counter(), headers_of(scope)
        sender = Sender(send, self._allowed(headers.get("origin")))
        left = False
        try:
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                self._check_origin(scope, headers)
                await sender.preflight()
            else:
                self._check(scope, headers, place)
                left = await self._answered(scope, await self._body(headers, receive), receive, sender)
        except ServeError as failure:
            response = place.shape(failure)
            response.headers.update(failure.headers)
            await response(scope, receive, sender)
        except ConnectionError:
            left = True
        except Exception as error:  # a bug that one request meets is told to its client, and to nobody else
            print(f"regard: a request failed ({trouble(error)})", file=sys.stderr, flush=True)
            if not sender.status:
                broken = ServeError(500, "failed", f"answering this failed ({trouble(error)})")
                await place.shape(broken)(scope, receive, sender)
        status = "left" if left else str(sender.status)
        self.metrics.requests.labels(place.endpoint, asked.get(), status).inc()
        self.metrics.duration.labels(place.endpoint).observe(time.perf_counter() - begun)

    async def _answered(self, scope: Scope, body: bytes, receive: Receive, send: Sender) -> bool:
        """Let the protocol answer; whether the client has left before it could."""
        task = asyncio.current_task()
        assert task is not None
        gone = asyncio.Event()

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            if not send.complete:
                gone.set()
                task.cancel()

        watching = asyncio.create_task(watch())
        given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            if given:
                return given.pop()
            await asyncio.get_running_loop().create_future()  # the watch above notices when the client leaves
            raise AssertionError

        try:
            async with asyncio.timeout(self.limits.seconds):
                await self._handled(scope, replay, send)
        except asyncio.CancelledError:
            if not gone.is_set():
                raise
            task.uncancel()
            return True
        except TimeoutError:
            if send.status:
                raise ConnectionAbortedError from None
            raise ServeError(
                504, "timeout", f"there was no answer within {self.limits.seconds:g} seconds; ask for less"
            ) from None
        finally:
            watching.cancel()
        return False

    async def _handled(self, scope: Scope, receive: Receive, send: Sender) -> None:
        place = current.get()
        handler = None if place is None else place.handlers.get(scope["method"])
        if place is None or handler is None:
            await self.inner(scope, receive, send)
            return
        scope["path_params"] = dict(place.parameters)
        response = await handler(Request(scope, receive))
        await response(scope, receive, send)

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """The whole body, if it is not too large and comes in time."""
        most, parts, size = self.limits.body, list[bytes](), 0
        given = headers.get("content-length", "0")
        if given.isdecimal() and int(given) > most:
            raise refused(f"the request has {given} bytes; at most {most} are read", 413)
        try:
            async with asyncio.timeout(self.limits.sending):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionAbortedError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise refused(f"the request has more than {most} bytes, which is the most that is read", 413)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            sentence = f"the request did not arrive within {self.limits.sending:g} seconds"
            raise ServeError(408, "timeout", sentence) from None

    def _check(self, scope: Scope, headers: Mapping[str, str], place: Place) -> None:
        self._check_origin(scope, headers)
        if place.protocol is not None and (place.protocol.own_keys or scope["path"] in place.protocol.free):
            return
        if scope["path"] in PAGES and scope["method"] in READING:
            return
        self.settings.keys.admit(bearer(headers))

    def _check_origin(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Refuse pages whose host name points at this machine, and pages of other origins that post to it."""
        host = headers.get("host", "")
        if self.settings.local and PORT.sub("", host).lower() not in LOCAL:
            raise ServeError(403, "forbidden", "ask for localhost; this server answers no other name")
        origin = headers.get("origin")
        if origin is None or self._allowed(origin) or _place(origin) == host:
            return
        if scope["method"] not in READING or scope["method"] == "OPTIONS":
            raise ServeError(
                403, "forbidden", "pages of other origins are not answered; the server can allow one with --cors"
            )

    def _allowed(self, origin: str | None) -> str | None:
        """What a browser is told about a foreign origin."""
        if origin is None:
            return None
        return "*" if "*" in self.settings.cors else origin if origin in self.settings.cors else None


class Sender:
    """Sends an answer, remembers its status, and adds what browsers are told."""

    def __init__(self, send: Send, origin: str | None) -> None:
        self.send, self.origin, self.status, self.complete = send, origin, 0, False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            extra = [(b"x-content-type-options", b"nosniff")]
            if self.origin is not None:
                extra += [(b"access-control-allow-origin", self.origin.encode()), (b"vary", b"Origin")]
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        elif not message.get("more_body"):
            self.complete = True
        await self.send(message)

    async def preflight(self) -> None:
        """Tell a browser what a page of an allowed origin may send."""
        headers = {
            "access-control-allow-methods": METHODS,
            "access-control-allow-headers": "Authorization, Content-Type",
            "access-control-max-age": str(OLD),
        }
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self({"type": "http.response.start", "status": 204, "headers": raw})
        await self({"type": "http.response.body", "body": b""})


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request by their names in small letters; the first where there are several of a name."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def bearer(headers: Mapping[str, str]) -> str | None:
    """The key of a request: Authorization: Bearer KEY."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _place(origin: str) -> str:
    """The host and port of an origin; empty if it is not an origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
