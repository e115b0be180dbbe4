"""The live page of `regard look`: the page of `regard serve`, on models that this process has loaded.

One text is looked at at a time. Up to `WAITING` requests wait, each for at most `PATIENCE` seconds; others are told to
try again. A client that leaves before its turn costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.serve.application import build
from regard.serve.failures import ServeError, refused
from regard.serve.metrics import Metrics
from regard.serve.protocols.page import Look, page_of
from regard.serve.running import Stoppable, configured, listen
from regard.serve.server import readable
from regard.serve.settings import Limits, Settings

if TYPE_CHECKING:
    from regard.look.record import Record

LARGEST = 128 * 1024  # bytes of a request
WAITING = 64  # requests that wait while one is processed
PATIENCE = 30.0  # seconds that a request waits for those before it
SLOWEST = 600.0  # seconds from a request to its answer

Looker = Callable[[str, int | None], "Record"]  # a text, and the token from which on a long one is shown whole


class Lookers:
    """Looks into every model at once, one text after the other: two at once would not be faster."""

    def __init__(self, lookers: Sequence[Looker], limits: Limits, *, pairs: bool) -> None:
        self.lookers, self.limits, self.pairs = lookers, limits, pairs
        self.turn, self.waiting = asyncio.Lock(), 0

    def models(self) -> Sequence[Mapping[str, Any]]:
        return ()

    async def look(self, asked: Look) -> list[dict[str, Any]]:
        if asked.text is None or asked.model is not None:
            raise refused('send JSON such as {"text": "a sentence"}')
        readable([asked.text], most=self.limits.looked)
        if self.waiting > WAITING:
            raise ServeError(503, "overloaded", f"{WAITING} texts are waiting already; try again in a moment")
        self.waiting += 1
        try:
            await self._take_turn()
            working = asyncio.ensure_future(asyncio.to_thread(self._records, asked.text, asked.first))
            working.add_done_callback(self._give_turn)
            return await asyncio.shield(working)
        finally:
            self.waiting -= 1

    async def _take_turn(self) -> None:
        try:
            await asyncio.wait_for(self.turn.acquire(), PATIENCE)
        except TimeoutError:
            sentence = f"other texts have kept the model busy for {PATIENCE:g} seconds; try again in a moment"
            raise ServeError(503, "overloaded", sentence) from None

    def _give_turn(self, working: asyncio.Future[list[dict[str, Any]]]) -> None:
        """The turn lasts until the thread has ended, also if its client has left meanwhile."""
        self.turn.release()
        if not working.cancelled():
            working.exception()  # which nobody else asks for if the client has left

    def _records(self, text: str, first: int | None) -> list[dict[str, Any]]:
        """The records of every model; errors are shown on the page."""
        try:
            return [looker(text, first).to_json() for looker in self.lookers]
        except RegardError as error:
            raise refused(str(error)) from None
        except Exception as error:  # whatever a model raises is shown on the page, and the page stays
            sentence = f"looking at this text failed ({type(error).__name__}: {error})"
            raise ServeError(500, "failed", sentence) from None


class LivePage:
    """The page on a port of this machine; port 0 takes a free one. With `pairs` it has a second box."""

    def __init__(self, lookers: Sequence[Looker], *, port: int = 0, pairs: bool = False, sending: float = 20.0) -> None:
        settings = Settings(port=port, limits=Limits(body=LARGEST, seconds=SLOWEST, sending=sending, drain=1.0))
        self.listening = listen(settings.host, port)
        self.port: int = self.listening.getsockname()[1]
        looks = Lookers(lookers, settings.limits, pairs=pairs)
        self.server = Stoppable(configured(build([page_of(looks)], settings, Metrics()), settings.limits))

    def run(self) -> None:
        """Serve until Ctrl-C."""
        self.server.run([self.listening])

    def stop(self) -> None:
        """End the server, from another thread."""
        self.server.should_exit = True
