"""From models and settings to a server that runs until it is told to end.

SIGTERM or Ctrl-C   no more connections; requests that are being answered have `limits.drain` seconds. A second one ends
                    the server at once.
SIGHUP              model directories that were replaced are taken over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from regard.errors import RegardError
from regard.serve.application import build
from regard.serve.failures import ServeError, UnreadableError
from regard.serve.guard import Guard
from regard.serve.protocols import PROTOCOLS
from regard.serve.registry import Entry, Facts
from regard.serve.server import Server
from regard.serve.settings import Limits, Settings

BACKLOG = 2048  # connections that the system keeps until they are accepted
LARGEST_HEAD = 1 << 19  # bytes of the head of a request, and of what arrives with it
IDLE = 75  # seconds without a request after which a connection is closed


def run(models: Mapping[str, Path], settings: Settings, server: Server) -> None:
    """Serve models until a signal."""
    listening = listen(settings.host, settings.port)
    protocols = [protocol(server) for protocol in PROTOCOLS]
    config = configured(build(protocols, settings, server.metrics), settings.limits)
    factory = config.get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(models, config, server, listening))


def configured(application: Guard, limits: Limits) -> uvicorn.Config:
    """How every server of this package is run: nothing of a request is logged."""
    return uvicorn.Config(
        application,
        http=patient(limits.sending),
        lifespan="off",
        ws="none",
        proxy_headers=False,
        access_log=False,
        log_level="critical",
        server_header=False,
        date_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=int(limits.drain),
    )


async def _serve(models: Mapping[str, Path], config: uvicorn.Config, server: Server, listening: socket.socket) -> None:
    server.pool.follow()
    try:
        await describe(models, server)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: _take_over(server))
        host, port = listening.getsockname()[:2]
        names = ", ".join(models)
        address = f"[{host}]" if ":" in host else host
        print(f"{names}: http://{address}:{port} until Ctrl-C", flush=True)
        await Stoppable(config, lambda: setattr(server, "draining", True), server.pool.kill).serve([listening])
    finally:
        await server.pool.end()


async def describe(models: Mapping[str, Path], server: Server) -> None:
    """Learn what each model's task takes and gives."""
    for name, path in models.items():
        entry = Entry(name, path, Facts(task="", pipeline="", answers="", example=""))
        try:
            entry.facts, entry.mark = await server.describe(entry)
        except ServeError as failure:
            raise RegardError(failure.why if isinstance(failure, UnreadableError) else failure.sentence) from None
        server.registry.add(entry)
        server.tell_of(entry)


def _take_over(server: Server) -> None:
    async def reload() -> None:
        for name, outcome in (await server.reload()).items():
            print(f"regard: {name}: {outcome}", file=sys.stderr, flush=True)

    server.in_background(reload())


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise RegardError(f"there is no port {port}; choose one from 1 to 65535 with --port, or leave it out")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise RegardError(
            f"{host}, port {port} cannot be used ({error.strerror}); choose another with --host or --port"
        ) from None


def patient(seconds: float) -> type[HttpToolsProtocol]:
    """Connections whose clients have so many seconds to send the head of a request."""

    class Patient(HttpToolsProtocol):
        deadline: asyncio.TimerHandle | None = None
        head = 0  # bytes since the head of a request began

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._begin()

        def _begin(self) -> None:
            if self.deadline is None:
                self.deadline, self.head = self.loop.call_later(seconds, self.transport.close), 0

        def data_received(self, data: bytes) -> None:
            self.head += len(data)
            if self.deadline is not None and self.head > LARGEST_HEAD:
                self.send_400_response("The head of the request is too large.")
                return
            super().data_received(data)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._begin()

        def on_headers_complete(self) -> None:
            self._end()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _end(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return Patient


class Stoppable(uvicorn.Server):
    """Ends at the first signal when its requests are answered, and at the second at once."""

    def __init__(
        self, config: uvicorn.Config, ending: Callable[[], object] = bool, kill: Callable[[], object] = bool
    ) -> None:
        super().__init__(config)
        self.ending, self.kill = ending, kill

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {each: signal.signal(each, self.handle_exit) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's name
        if self.should_exit:
            self.kill()
            os._exit(128 + sig)
        self.ending()
        self.should_exit = True
