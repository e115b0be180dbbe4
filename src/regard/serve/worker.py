"""A worker: one process of one thread that holds models and answers the server's messages, one after the other.

    {"id": 7, "verb": "run", "model": {"name", "path", "version", "mark"}, …}   →   {"id": 7, …}

describe   what the surface of a model says
open       a version of a model, beside the one that is held; how many tokens to answer together
run        inputs, as JSON, and an answer or a sentence for each
look       the record of an input
stream     an answer in pieces, each a message
split      a text that is too long, as whole sentences
tokenize   texts as tokens
unload     forget a model; there is no reply

How a model is opened is not known here: `Opens` is given by the command that starts the worker.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from regard.data.tokenizers import Tokenizers
from regard.engines.channel import Channel, Message
from regard.errors import CutWarning, RegardError
from regard.serve.failures import trouble
from regard.serve.registry import Facts, mark_of
from regard.serve.texts.sentences import split
from regard.tasks.base import AnySurface

PROBE = 0.6  # seconds that measuring a model may take, of a core
TRIES = 2  # of each batch, of which the faster counts
PIECES = 16  # tokens of the text that a model is measured by
LARGEST = 64  # texts in the largest batch that is measured
AS_FAST = 0.9  # a batch is as fast as the fastest if it answers this share of its texts a second
SLOW = 0.5  # at this share, larger batches are not tried


class Opened(Protocol):
    """A model in a worker."""

    surface: AnySurface
    tokenizers: Tokenizers | None
    facts: Facts

    def answers(self, asked: Sequence[object], given: Mapping[str, Any], *, detailed: bool) -> list[object]:
        """An answer to each parsed input; `given` are options of `regard run`; `detailed` is its --json."""
        ...

    def look(self, asked: object, view: Mapping[str, Any]) -> dict[str, Any]:
        """The record of one input."""
        ...

    def pieces(self, asked: object, given: Mapping[str, Any]) -> Iterator[str]:
        """One answer in pieces."""
        ...


class Opens(Protocol):
    """How models are read from their directories."""

    def describe(self, path: Path) -> Facts: ...
    def open(self, path: Path) -> Opened: ...


@dataclass
class Worker:
    """The models that a worker holds, and what it answers to each verb."""

    opens: Opens
    channel: Channel
    held: dict[str, dict[int, Opened]] = field(default_factory=dict)  # models by name and version

    def work(self) -> None:
        """Answer messages until the server ends."""
        while (message := self.channel.receive()) is not None:
            if not self._told(message):
                reply = self._reply(message["verb"], message)
                self.channel.send({"id": message["id"], **reply, "held": self._versions()})

    def _told(self, message: Message) -> bool:
        """Do what a message without a reply says, if it is one. A job may have ended before it is cancelled."""
        if message["verb"] == "unload":
            self.held.pop(message["name"], None)
        return message["verb"] in ("unload", "cancel")

    def _versions(self) -> dict[str, list[int]]:
        return {name: list(versions) for name, versions in self.held.items()}

    def _reply(self, verb: str, message: Message) -> Message:
        verbs: dict[str, Callable[[Message], Message]] = {
            "describe": self._describe,
            "open": self._open,
            "run": self._answer,
            "look": self._look,
            "stream": self._stream,
            "split": self._split,
            "tokenize": self._tokenize,
        }
        start = time.perf_counter()
        try:
            found = verbs[verb](message)
        except ChangedError as error:
            found = {"unreadable": str(error), "changed": True}
        except UnreadableError as error:
            found = {"unreadable": str(error)}
        except RegardError as error:
            found = {"refused": str(error)}
        except Exception as error:  # a bug that one request meets must not end the worker
            found = {"broken": broken(error)}
        return {**found, "seconds": time.perf_counter() - start}

    def _describe(self, message: Message) -> Message:
        path = Path(message["model"]["path"])
        mark = mark_of(path)
        return {"facts": self.opens.describe(path).model_dump(mode="json"), "mark": mark}

    def _model(self, message: Message, *, beside: bool = False) -> Opened:
        """The version of a model that a message is for, opened if it is not held.

        Older versions are forgotten, unless it is to stand beside them until the server asks for it.
        """
        wanted = message["model"]
        name, version = wanted["name"], wanted["version"]
        held = self.held.get(name, {})
        model = held[version] if version in held else self._read(wanted)
        self.held[name] = {number: each for number, each in held.items() if beside or number > version}
        self.held[name][version] = model
        return model

    def _read(self, wanted: Message) -> Opened:
        try:
            path = Path(wanted["path"])
            if mark_of(path) != wanted["mark"]:
                raise ChangedError(f"the files of model {wanted['name']!r} have changed")
            return self.opens.open(path)
        except ChangedError:
            raise
        except RegardError as error:
            raise UnreadableError(str(error)) from None

    def _open(self, message: Message) -> Message:
        model = self._model(message, beside=True)
        tokens, seconds = measured(model)
        return {"facts": model.facts.model_dump(mode="json"), "budget": tokens, "single": seconds}

    def _answer(self, message: Message) -> Message:
        model = self._model(message)
        asked, refused = [], {}
        for place, given in enumerate(message["inputs"]):
            try:
                asked.append((place, model.surface.from_request(given)))
            except RegardError as error:
                refused[place] = str(error)
        options, detailed = message["options"], message["detailed"]
        with reading(cut=message["cut"]):
            try:
                answers: list[object] = list(model.answers([each for _, each in asked], options, detailed=detailed))
            except (RegardError, CutWarning):
                answers = [self._alone(model, each, options, detailed=detailed) for _, each in asked]
        results: list[Message] = [{"refused": refused.get(place)} for place in range(len(message["inputs"]))]
        reads = _reads(model, [each for _, each in asked])
        for (place, _), answer, read in zip(asked, answers, reads, strict=True):
            if isinstance(answer, RegardError):
                results[place] = {"refused": str(answer)}
            else:
                said = model.surface.tokens(answer)
                results[place] = {"found": model.surface.to_json(answer), "read": read, "said": said}
        return {"results": results}

    def _alone(self, model: Opened, asked: object, options: Mapping[str, Any], *, detailed: bool) -> object:
        """The answer to one input, or the error, where others were refused together with it."""
        try:
            return model.answers([asked], options, detailed=detailed)[0]
        except RegardError as error:
            return error
        except CutWarning as warning:
            return too_long(warning)

    def _look(self, message: Message) -> Message:
        model, view = self._model(message), dict(message["options"])
        given = message["inputs"][0]
        asked = line_of(model.surface, given) if view.pop("line") else model.surface.from_request(given)
        return {"record": model.look(asked, view)}

    def _stream(self, message: Message) -> Message:
        """Send pieces until the end, or until the client has left."""
        model, said = self._model(message), 0
        asked = model.surface.from_request(message["inputs"][0])
        with reading(cut=message["cut"]):
            try:
                for piece in model.pieces(asked, message["options"]):
                    if self.channel.has_message():
                        told = self.channel.receive()
                        if told is None or (self._told(told) and told["verb"] == "cancel"):
                            break
                    said += 1
                    self.channel.send({"id": message["id"], "piece": piece})
            except CutWarning as warning:
                raise too_long(warning) from None
        return {"read": sum(_reads(model, [asked])), "said": said}

    def _split(self, message: Message) -> Message:
        model = self._model(message)
        text, facts, language = message["inputs"][0], model.facts, message["options"]["language"]
        if model.tokenizers is None or facts.whole is None:
            return {"parts": [text], "between": ["", ""]}
        source = model.tokenizers.source
        found = split(text, tokenizer=source, together=facts.together, longest=facts.whole, language=language)
        return {"parts": found.parts, "between": found.between}

    def _tokenize(self, message: Message) -> Message:
        model = self._model(message)
        if model.tokenizers is None:
            raise RegardError("this model reads no texts, so there are no tokens")
        source = model.tokenizers.source
        found = []
        for text in message["inputs"]:
            ids, spans = source.encode([text])[0], source.offsets(text)
            rows = zip(ids, source.pieces(ids), spans, strict=False)
            found.append([[number, name, begin, end] for number, name, (begin, end) in rows])
        return {"tokens": found}


class UnreadableError(RegardError):
    """A model that cannot be opened."""


class ChangedError(UnreadableError):
    """A model whose files are no longer those of the version that is asked for."""


@contextmanager
def reading(*, cut: bool) -> Iterator[None]:
    """Let what would not be read of an input be an error, unless it may be cut."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if cut else "error", CutWarning)
        yield


def too_long(warning: CutWarning) -> RegardError:
    return RegardError(f"the input would be cut: {warning}; shorten it, or set truncate where there is such a field")


def broken(error: Exception) -> str:
    """A mistake of this program, for the client and for the log."""
    print(f"regard: a worker failed ({trouble(error)})", file=sys.stderr, flush=True)
    return f"answering this failed ({trouble(error)})"


def line_of(surface: AnySurface, line: str) -> object:
    """The input that somebody has typed; where a line would name a file, JSON is read."""
    if not surface.files:
        return surface.parse(line)
    try:
        return surface.from_request(json.loads(line))
    except ValueError as error:
        if isinstance(error, RegardError):
            raise
        raise RegardError(f"JSON is expected, such as {surface.example}") from None


def _reads(model: Opened, asked: Sequence[object]) -> list[int]:
    """How many tokens each input has; 0 where it is not made of tokens."""
    if model.tokenizers is None:
        return [0] * len(asked)
    texts = [[part for part in _parts(each) if isinstance(part, str)] for each in asked]
    lengths = map(len, model.tokenizers.source.encode([text for several in texts for text in several]))
    return [sum(islice(lengths, len(several))) for several in texts]


def _parts(asked: object) -> Iterator[object]:
    """An input that is one thing, or all that it is made of."""
    if isinstance(asked, tuple | list):
        for each in asked:
            yield from _parts(each)
    else:
        yield asked


def measured(model: Opened) -> tuple[int | None, float | None]:
    """The tokens to answer together, as many as are answered about as fast as any number, and the seconds for one text.

    The text is made of tokens of the vocabulary. None where the model does not read plain texts.
    """
    if model.tokenizers is None:
        return None, None
    source = model.tokenizers.source
    first = source.size // 4
    text = source.decode([[*range(first, first + PIECES)]])[0]
    try:
        asked = model.surface.from_request(text)
        model.answers([asked], {}, detailed=False)  # warms up
    except RegardError:
        return None, None
    begun, rates = time.process_time(), dict[int, float]()
    size, single = 1, 0.0
    while size <= LARGEST and time.process_time() - begun < PROBE:
        taken = min(_seconds(model, [asked] * size) for _ in range(TRIES))
        single = single or taken
        rates[size] = size / taken
        if rates[size] < SLOW * max(rates.values()):
            break
        size *= 2
    fast = AS_FAST * max(rates.values())
    best = max(size for size, rate in rates.items() if rate >= fast)
    return best * (PIECES + 1), single


def _seconds(model: Opened, asked: Sequence[object]) -> float:
    """How long a batch takes of the core of this worker: other programs may run beside it."""
    start = time.process_time()
    model.answers(asked, {}, detailed=False)
    return time.process_time() - start
