"""The page, served live on this machine: type a text, see the answer and what it looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from regard.errors import RegardError
from regard.look import page
from regard.look.record import Record

LOCAL = ("localhost", "127.0.0.1", "[::1]")  # a page elsewhere cannot pretend to be one of these
LARGEST = 64 * 1024  # bytes of a request

Looker = Callable[[str], Record]


def server(
    lookers: Sequence[Looker], *, host: str = "127.0.0.1", port: int = 0, pairs: bool = False
) -> ThreadingHTTPServer:
    """A server that answers `POST /look {"text": …}` with the records of every model; port 0 takes a free one.

    With `pairs` the page has a second box; what is typed there stands after a tab.
    """
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self._is_local():
                return
            if self.path.partition("?")[0] == "/":
                self._send(HTTPStatus.OK, page.render([], live=True, pairs=pairs), "text/html; charset=utf-8")
            else:
                self._send(HTTPStatus.NOT_FOUND, json.dumps({"error": f"there is nothing at {self.path}"}))

        def do_POST(self) -> None:
            if not self._is_local():
                return
            if self.path != "/look":
                self._send(HTTPStatus.NOT_FOUND, json.dumps({"error": f"there is nothing at {self.path}"}))
                return
            try:
                text = self._text()
                with lock:  # one at a time: a model on a CPU is not faster with two
                    records = [looker(text).to_json() for looker in lookers]
            except RegardError as error:
                self._send(HTTPStatus.BAD_REQUEST, json.dumps({"error": str(error)}))
                return
            self._send(HTTPStatus.OK, json.dumps(records))

        def _text(self) -> str:
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 < length <= LARGEST:
                raise RegardError(f"the request has {length} bytes; send JSON with a text, of at most {LARGEST}")
            try:
                text = json.loads(self.rfile.read(length))["text"]
            except (ValueError, KeyError, TypeError):
                raise RegardError('send JSON such as {"text": "a sentence"}') from None
            if not isinstance(text, str) or not text.strip():
                raise RegardError("the text is empty; type something to look at")
            return text

        def _is_local(self) -> bool:
            """Against pages elsewhere that point a name of theirs at this machine."""
            name = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
            if host not in LOCAL or name in LOCAL:
                return True
            self._send(HTTPStatus.FORBIDDEN, json.dumps({"error": "ask for localhost"}))
            return False

        def _send(self, status: HTTPStatus, body: str, kind: str = "application/json") -> None:
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Quiet: the terminal belongs to the user."""

    return ThreadingHTTPServer((host, port), Handler)
