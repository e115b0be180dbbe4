"""Where a server listens, what it allows, and what a request may cost. Every limit has a flag of `regard serve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.serve.keys import Keys

LOCAL = ("localhost", "127.0.0.1", "[::1]")  # a page elsewhere cannot pretend to be one of these


@dataclass(frozen=True)
class Limits:
    """A request beyond one of these is refused, in the shape of errors of the protocol that it speaks."""

    body: int = 2 << 20  # bytes of a request
    characters: int = 100_000  # of all texts of a request
    looked: int = 20_000  # characters of a text that is looked at: attention grows with their square
    batch: int = 256  # inputs of a request
    queue: int = 2048  # inputs that wait for a worker
    seconds: float = 60.0  # from a request to its answer
    sending: float = 20.0  # seconds that a client may take to send a request
    drain: float = 30.0  # seconds for the requests that are being answered when the server is told to end
    beam: int = 32  # hypotheses of a search, and answers to one input
    length: int = 4096  # tokens of an answer


@dataclass(frozen=True)
class Settings:
    """Where a server listens, and what it allows."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    memory: int | None = None  # bytes of weights
    keys: Keys = field(default_factory=Keys)
    cors: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server, so that requests must ask for one of its own names."""
        return self.host in (*LOCAL, "::1")
