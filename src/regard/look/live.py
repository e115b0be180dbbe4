"""The page, served live on this machine: type a text, see the answer and the attention behind it.

One text is processed at a time. Up to `WAITING` requests wait, each for at most `PATIENCE` seconds; others are
told to try again. Only the page itself is answered: a browser lets pages of other origins send
requests to this machine too, and these are refused.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Lock
from typing import Any
from urllib.parse import urlsplit

from regard.errors import RegardError
from regard.look import page
from regard.look.record import Record

LOCAL = ("localhost", "127.0.0.1", "[::1]")  # a page elsewhere cannot pretend to be one of these
LARGEST = 128 * 1024  # bytes of a request
LONGEST = 20_000  # characters of a text: attention grows with their square
WAITING = 64  # requests that wait while one is processed
PATIENCE = 30  # seconds that a request waits for those before it
SLOWEST = 20  # seconds without a byte after which a connection is given up
LINGER = 1  # seconds in which a refused client may finish sending

Looker = Callable[[str, int | None], Record]  # a text, and the token from which on a long one is shown whole


class RequestError(Exception):
    """A request that is answered with an error: its status and a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Server(ThreadingHTTPServer):
    """The models, and who may use them: one request at a time, while a few others wait."""

    request_queue_size = 128  # connections that the system keeps until they are accepted

    def __init__(self, host: str, port: int, lookers: Sequence[Looker], *, pairs: bool) -> None:
        super().__init__((host, port), _Handler)
        self.host, self.lookers, self.pairs = host, lookers, pairs
        self.places, self.turn = BoundedSemaphore(1 + WAITING), Lock()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for the models, and keep them from others while the `with` lasts: two at once would not be faster."""
        if not self.places.acquire(blocking=False):
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{WAITING} texts are waiting already; try again in a moment"
            )
        try:
            if not self.turn.acquire(timeout=PATIENCE):
                raise RequestError(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"other texts have kept the model busy for {PATIENCE} seconds; try again in a moment",
                )
            try:
                yield
            finally:
                self.turn.release()
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about clients that disconnect or time out."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def server(
    lookers: Sequence[Looker], *, host: str = "127.0.0.1", port: int = 0, pairs: bool = False
) -> ThreadingHTTPServer:
    """A server that answers `POST /look {"text": …}` with the records of every model; port 0 takes a free one.

    With `pairs` the page has a second box; its text is sent after a tab.
    """
    if not 0 <= port <= 65535:
        raise RegardError(f"there is no port {port}; choose one from 1 to 65535 with --port, or leave it out")
    return _Server(host, port, lookers, pairs=pairs)


class _Handler(BaseHTTPRequestHandler):
    """One connection: `GET /` is the page, `POST /look` looks at a text."""

    server: _Server
    timeout = SLOWEST

    def do_GET(self) -> None:
        self._answer(self._page)

    def do_POST(self) -> None:
        self._answer(self._look)

    def _answer(self, make: Callable[[], tuple[str, str]]) -> None:
        """Send the result of `make`, a body and its type, or an error sentence."""
        try:
            self._only_own()
            body, kind = make()
        except RequestError as refused:
            self._send(refused.status, json.dumps({"error": str(refused)}))
            self._linger()
        else:
            self._send(HTTPStatus.OK, body, kind)

    def _page(self) -> tuple[str, str]:
        if self.path.partition("?")[0] != "/":
            raise self._nothing()
        return page.render([], live=True, pairs=self.server.pairs), "text/html; charset=utf-8"

    def _look(self) -> tuple[str, str]:
        if self.path != "/look":
            raise self._nothing()
        text, first = _asked_in(self.rfile.read(self._length()))
        with self.server.waiting():
            if self._has_left():
                raise ConnectionAbortedError
            records = _looked(self.server.lookers, text, first)
        return json.dumps(records), "application/json"

    def _length(self) -> int:
        """The bytes of the request."""
        given = self.headers.get("Content-Length") or "0"
        length = int(given) if re.fullmatch(r"[0-9]{1,9}", given) else -1
        if not 0 < length <= LARGEST:
            size = f"{length} bytes" if length >= 0 else "no length that can be read"
            raise RequestError(
                HTTPStatus.BAD_REQUEST, f"the request has {size}; send JSON with a text, of at most {LARGEST} bytes"
            )
        return length

    def _only_own(self) -> None:
        """Refuse other origins: pages whose host name points at this machine, and pages that post to it."""
        asked = self.headers.get("Host") or ""
        if self.server.host in LOCAL and (asked.rpartition(":")[0] or asked) not in LOCAL:
            raise RequestError(HTTPStatus.FORBIDDEN, "ask for localhost")
        origin = self.headers.get("Origin")
        if origin is not None and _place(origin) != asked:
            raise RequestError(HTTPStatus.FORBIDDEN, "pages of other origins are not answered")
        kind = (self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        if self.command == "POST" and kind != "application/json":
            raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON, with Content-Type: application/json")

    def _nothing(self) -> RequestError:
        return RequestError(HTTPStatus.NOT_FOUND, f"there is nothing at {self.path[:200]}")

    def _has_left(self) -> bool:
        """Whether the client has closed the connection."""
        self.connection.setblocking(False)
        try:
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        finally:
            self.connection.settimeout(SLOWEST)

    def _send(self, status: HTTPStatus, body: str, kind: str = "application/json") -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(data)

    def _linger(self) -> None:
        """Read the rest of a refused request: closing earlier would reset the connection and lose the answer."""
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(LINGER)
            for _ in range(64):
                if not self.connection.recv(1 << 16):
                    return

    def log_message(self, *_: Any) -> None:
        """Print nothing: the terminal belongs to the user."""


def _asked_in(body: bytes) -> tuple[str, int | None]:
    """The text of a request, if it can be looked at, and the token from which on it is shown whole."""
    try:
        asked = json.loads(body)
        text, first = asked["text"], asked.get("from")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RequestError(HTTPStatus.BAD_REQUEST, 'send JSON such as {"text": "a sentence"}') from None
    if not isinstance(text, str) or not text.strip():
        raise RequestError(HTTPStatus.BAD_REQUEST, "the text is empty; type something to look at")
    if len(text) > LONGEST:
        raise RequestError(
            HTTPStatus.BAD_REQUEST, f"the text has {len(text)} characters; look at no more than {LONGEST}"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise RequestError(HTTPStatus.BAD_REQUEST, "the text holds half a character; type it again")
    if first is not None and (type(first) is not int or not 0 <= first < LONGEST):
        raise RequestError(HTTPStatus.BAD_REQUEST, f"from is the number of a token, from 0 to {LONGEST - 1}")
    return text, first


def _looked(lookers: Sequence[Looker], text: str, first: int | None) -> list[dict[str, Any]]:
    """The records of every model; errors are shown on the page."""
    try:
        return [looker(text, first).to_json() for looker in lookers]
    except RegardError as error:
        raise RequestError(HTTPStatus.BAD_REQUEST, str(error)) from None
    except Exception as error:
        sentence = f"looking at this text failed ({type(error).__name__}: {error})"
        raise RequestError(HTTPStatus.INTERNAL_SERVER_ERROR, sentence) from None


def _place(origin: str) -> str:
    """The host and port of an origin; empty if it is not an origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
