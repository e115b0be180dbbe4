"""A worker as the server sees it: a process, and a connection to it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from regard.engines.channel import Message, packed, unpacked
from regard.serve.registry import Entry

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")  # one for each worker

Reply = Callable[[Message | None], None]  # receives each message about a job; None when the worker has ended


class Process:
    """One worker. It answers its jobs one after the other; the `reply` of each receives what the worker says of it.

    Behind a batch it may hold the next one already, so that it does not wait for the server in between.
    """

    numbers = count(1)

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.held: dict[str, list[int]] = {}  # versions of models, by name
        self.used: dict[str, float] = {}  # when each was asked last
        self.given = 0.0  # when it was given a job last
        self._jobs: dict[int, Reply] = {}
        self._answers_batch = False
        self._writer: asyncio.StreamWriter | None = None
        self._own, others = socket.socketpair()
        with others:
            os.set_inheritable(others.fileno(), True)
            self.process = subprocess.Popen(
                [*command, str(others.fileno())],
                pass_fds=[others.fileno()],
                env={**os.environ, **dict.fromkeys(THREADS, "1")},
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server, which lets workers finish
            )

    @property
    def idle(self) -> bool:
        return not self._jobs and self._writer is not None

    @property
    def takes_next(self) -> bool:
        """Whether it answers a batch and holds no other yet."""
        return len(self._jobs) == 1 and self._answers_batch and self._writer is not None

    def holds(self, entry: Entry) -> bool:
        """Whether it has opened the version of a model that is in use."""
        return entry.version in self.held.get(entry.name, ())

    async def follow(self, ready: Callable[[], None]) -> None:
        """Receive replies until the worker ends; `ready` is called when it can be given a job."""
        reader, self._writer = await asyncio.open_connection(sock=self._own, limit=1 << 20)
        ready()
        while (message := await receive(reader)) is not None:
            reply = self._jobs[message["id"]]
            if "piece" not in message:
                del self._jobs[message["id"]]
                self.held = message["held"]
            reply(message)
        writer, self._writer = self._writer, None
        writer.close()
        lost, self._jobs = self._jobs, {}
        self.end()
        for reply in lost.values():
            reply(None)

    def start(self, message: Message, reply: Reply, *, batch: bool) -> None:
        """Give the worker a job; behind a `batch` it takes another."""
        assert self.idle or (batch and self.takes_next)
        assert self._writer is not None
        number = next(self.numbers)
        self._jobs[number], self._answers_batch = reply, batch
        self._writer.write(packed({**message, "id": number}))

    def tell(self, message: Message) -> None:
        """Send what has no reply."""
        if self._writer is not None:
            self._writer.write(packed({**message, "id": 0}))

    def end(self) -> None:
        """End the process, whatever it does, and close the socket to it."""
        if self._writer is not None:
            self._writer.close()
        with suppress(OSError):
            self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)


async def receive(reader: asyncio.StreamReader) -> Message | None:
    """The next message of a worker; None when it has ended."""
    try:
        length = int.from_bytes(await reader.readexactly(4), "big")
        return unpacked(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def python(module: str) -> list[str]:
    """The command that runs a module of this program."""
    return [sys.executable, "-m", module]
