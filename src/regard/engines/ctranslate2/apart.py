"""CTranslate2 in a process of its own, for processes that have imported torch: in these CTranslate2 is slower.

Only its calls go there: tokens in, tokens and numbers out. Texts are read and written by the same code as elsewhere, so
the answers are the same. The two processes share a pair of sockets, which nobody else can connect to.

    {"id": 7, "model": 3, "call": "translate_batch", "given": …, "options": …}   →   {"id": 7, "found": …}

The process ends with the object `Apart`, with this process however it ends, and after a Ctrl-C here, which may have
left half a message behind.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy
from numpy.typing import NDArray

from regard.engines.channel import Channel, Message
from regard.engines.ctranslate2.switches import Switches
from regard.errors import RegardError, cut

MODULE = "regard.engines.ctranslate2.apart_process"
PATIENCE = 5.0  # seconds in which a process that was killed is gone


class EndedError(RegardError):
    """The process has ended before it answered."""


class Apart:
    """The process. Several threads may use it. In a forked copy of this process it is not `alive`."""

    def __init__(self, *, switches: Switches = MappingProxyType({})) -> None:
        """`switches` are variables by which CTranslate2 is told how to compute."""
        if sys.platform == "win32":
            raise RegardError("CTranslate2 gets no process of its own on Windows; torch has to answer")
        own, other = socket.socketpair()
        with other:
            paths = os.pathsep.join(path for path in sys.path if path)  # what can be imported here can be there
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", MODULE, str(other.fileno()), str(os.getpid())],
                    pass_fds=[other.fileno()],
                    env={**os.environ, "PYTHONPATH": paths, **switches},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for this process
                )
            except (OSError, ValueError) as error:
                own.close()
                raise RegardError(f"no process for CTranslate2 can be started ({cut(error)})") from None
        self.pid = process.pid
        self._process, self._channel = process, Channel(own)
        self.meanwhile: Callable[[], None] | None = None  # is called once, before a reply is waited for
        self._numbers = count(1)
        self._sending, self._receiving = threading.Lock(), threading.Lock()
        self._arrived: dict[int, deque[Message]] = {}
        self._unwanted: set[int] = set()  # numbers of replies that nobody waits for any more
        self._left: list[int] = []  # models that nobody uses any more
        self._owner = os.getpid()
        self.end = weakref.finalize(self, _end, process, own, os.getpid())

    @property
    def alive(self) -> bool:
        return self._owner == os.getpid() and self.end.alive and self._process.poll() is None

    def open(self, kind: str, path: str, *, workers: int, **options: Any) -> Remote:
        """CTranslate2's object of a kind, such as its Translator, on the model in a directory."""
        number = self.ask({"open": kind, "path": path, "options": {"inter_threads": workers, **options}})
        self.reply(number)
        return Remote(self, number, workers)

    def ask(self, message: Message) -> int:
        """Send a message; `reply` of the number that is returned waits for the answer."""
        number = next(self._numbers)
        self._send({**message, "id": number})
        return number

    def leave(self, number: int) -> None:
        """Say with the next message that a model is not used any more: a destructor may not wait for a lock."""
        self._left.append(number)

    def stop(self, number: int) -> None:
        """Say that no more pieces are wanted."""
        with self._receiving:
            self._unwanted.add(number)
            self._arrived.pop(number, None)
        self._send({"stop": number})

    def _send(self, message: Message) -> None:
        left, self._left = self._left, []
        try:
            with self._sending:
                self._channel.send({**message, "left": left})
        except OSError:
            self._ended()
        except BaseException:  # part of the message may have been sent
            self.end()
            raise

    def reply(self, number: int) -> Message:
        """The next reply to a message. Whoever waits receives for the others too."""
        if self.meanwhile is not None:
            work, self.meanwhile = self.meanwhile, None
            work()
        try:
            with self._receiving:
                while not (found := self._arrived.get(number)):
                    self._sort(self._receive())
                reply = found.popleft()
                if "piece" not in reply:
                    del self._arrived[number]
        except OSError:
            self._ended()
        except BaseException:
            self.end()
            raise
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def _sort(self, message: Message) -> None:
        number = message["id"]
        if number not in self._unwanted:
            self._arrived.setdefault(number, deque()).append(message)
        elif "piece" not in message:
            self._unwanted.discard(number)

    def _receive(self) -> Message:
        message = self._channel.receive()
        if message is None:
            self._ended()
        if "shape" in message:
            content = self._channel.receive_bytes()
            if content is None:
                self._ended()
            message["content"] = content
        return message

    def _ended(self) -> NoReturn:
        self.end()
        raise EndedError("the process of CTranslate2 has ended")


def _end(process: subprocess.Popen[bytes], own: socket.socket, owner: int) -> None:
    """End the process and wait for it. A forked copy of its owner lets go of it."""
    own.close()
    if os.getpid() != owner:
        process.returncode = 0  # so that nobody waits for what is not its child
        return
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE)


class Translated(NamedTuple):
    """As CTranslate2's TranslationResult."""

    hypotheses: list[list[str]]
    scores: list[float]
    attention: list[list[list[float]]]


class Scored(NamedTuple):
    """As CTranslate2's ScoringResult."""

    log_probs: list[float]


class Generated(NamedTuple):
    """As CTranslate2's GenerationResult."""

    sequences_ids: list[list[int]]


class Step(NamedTuple):
    """As CTranslate2's GenerationStepResult."""

    token_id: int


class Read(NamedTuple):
    """As CTranslate2's EncoderForwardOutput."""

    last_hidden_state: NDArray[numpy.float32]


class Later:
    """The replies to a chunk, which is waited for when the first of them is wanted."""

    def __init__(self, apart: Apart, number: int) -> None:
        self._apart, self._number = apart, number
        self._found: list[Translated] | None = None

    def of(self, place: int) -> Translated:
        if self._found is None:
            self._found = [Translated(*each) for each in self._apart.reply(self._number)["found"]]
        return self._found[place]


class Future(NamedTuple):
    """As CTranslate2's AsyncTranslationResult."""

    later: Later
    place: int

    def result(self) -> Translated:
        return self.later.of(self.place)


class Remote:
    """What `engines` use of CTranslate2's Translator, Generator and Encoder, for one that is in the other process."""

    def __init__(self, apart: Apart, number: int, workers: int) -> None:
        self._apart, self._number = apart, number
        self.num_translators = self.num_encoders = workers

    def __del__(self) -> None:
        self._apart.leave(self._number)

    def translate_batch(
        self, source: Sequence[Sequence[str]], *, asynchronous: bool = True, **options: Any
    ) -> list[Future]:
        """Always asynchronous, as the caller must say."""
        assert asynchronous
        later = Later(self._apart, self._ask("translate_batch", [source], options))
        return [Future(later, place) for place in range(len(source))]

    def score_batch(self, *given: Sequence[Sequence[str]], **options: Any) -> list[Scored]:
        return [Scored(each) for each in self._found("score_batch", given, options)]

    def generate_batch(self, start: Sequence[Sequence[str]], **options: Any) -> list[Generated]:
        return [Generated(each) for each in self._found("generate_batch", [start], options)]

    def generate_tokens(self, prompt: Sequence[str], **options: Any) -> Iterator[Step]:
        number, ended = self._ask("generate_tokens", [prompt], options), False
        try:
            while not ended:
                reply = self._apart.reply(number)
                ended = "piece" not in reply
                if not ended:
                    yield Step(reply["piece"])
        finally:
            if not ended and self._apart.alive:
                self._apart.stop(number)

    def forward_batch(self, inputs: Sequence[Sequence[int]], **options: Any) -> Read:
        reply = self._apart.reply(self._ask("forward_batch", [inputs], options))
        return Read(numpy.frombuffer(reply["content"], numpy.float32).reshape(reply["shape"]))

    def _found(self, call: str, given: Sequence[object], options: Message) -> list[Any]:
        found: list[Any] = self._apart.reply(self._ask(call, given, options))["found"]
        return found

    def _ask(self, call: str, given: Sequence[object], options: Message) -> int:
        return self._apart.ask({"model": self._number, "call": call, "given": list(given), "options": options})
