"""The process that `apart.py` starts: it holds models of CTranslate2 and calls them for the process that started it.

It never loads torch. It ends when the other process does: then the socket closes, or, where a forked copy of that
process keeps the socket open, this process gets another parent.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NoReturn

import ctranslate2
import numpy

from regard.engines.channel import Channel, Message
from regard.engines.ctranslate2.plans import cores

LOOKS = 1.0  # seconds between two looks at the parent
MORE = 4  # calls at once beyond one for each core, so that chunks wait in CTranslate2 and not here


class Held:
    """The models, and what is called of them."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.models: dict[int, Any] = {}
        self._sending = threading.Lock()
        self._stopped: set[int] = set()

    def work(self, parent: int) -> NoReturn:
        """Do what messages say until the other process ends. Calls run in threads, so this never waits for them."""
        pool = ThreadPoolExecutor(cores() + MORE)
        with suppress(OSError):
            while self._arrives(parent) and (message := self.channel.receive()) is not None:
                for number in message["left"]:
                    self.models.pop(number, None)
                if "stop" in message:
                    self._stopped.add(message["stop"])
                else:
                    pool.submit(self._reply, message, self.models.get(message.get("model", 0)))
        os._exit(0)  # whatever the threads do

    def _arrives(self, parent: int) -> bool:
        """Wait for a message; False if the parent has ended."""
        while os.getppid() == parent:
            if select.select([self.channel.connection], [], [], LOOKS)[0]:
                return True
        return False

    def _reply(self, message: Message, model: Any) -> None:
        number, content = message["id"], None
        try:
            if "open" in message:
                self.models[number] = getattr(ctranslate2, message["open"])(message["path"], **message["options"])
                reply: Message = {}
            elif message["call"] == "generate_tokens":
                reply = self._told(number, model.generate_tokens(*message["given"], **message["options"]))
            elif message["call"] == "forward_batch":
                output = model.forward_batch(*message["given"], **message["options"])
                hidden = numpy.array(output.last_hidden_state, numpy.float32)
                reply, content = {"shape": hidden.shape}, hidden.tobytes()
            else:
                found = getattr(model, message["call"])(*message["given"], **message["options"])
                reply = {"found": [RESULTS[message["call"]](each) for each in found]}
        except Exception as error:
            reply, content = {"error": str(error)}, None
        self._send({"id": number, **reply}, content)

    def _told(self, number: int, steps: Iterator[Any]) -> Message:
        """Send tokens as they come, until no more are wanted."""
        for step in steps:
            if number in self._stopped:
                self._stopped.discard(number)
                break
            self._send({"id": number, "piece": step.token_id})
        return {}

    def _send(self, message: Message, content: bytes | None = None) -> None:
        with suppress(OSError), self._sending:
            self.channel.send(message)
            if content is not None:
                self.channel.send_bytes(content)


RESULTS: dict[str, Callable[[Any], object]] = {
    "translate_batch": lambda result: [result.hypotheses, result.scores, result.attention],
    "score_batch": lambda result: result.log_probs,
    "generate_batch": lambda result: result.sequences_ids,
}


def main() -> None:
    """The arguments are a file descriptor and the number of the parent."""
    descriptor, parent = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as connection:
        Held(Channel(connection)).work(parent)


if __name__ == "__main__":
    main()
