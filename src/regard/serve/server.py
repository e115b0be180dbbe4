"""What every protocol asks: a model's answers, records, pieces and tokens. Paths and processes are not seen here."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import JsonValue

from regard.engines.channel import Message
from regard.errors import RegardError
from regard.serve.batching import Item, Job
from regard.serve.failures import ServeError, UnreadableError, refused
from regard.serve.keys import Keys
from regard.serve.metrics import Metrics, asked
from regard.serve.pool import Pool, failure_of
from regard.serve.registry import Entry, Facts, Registry, mark_of
from regard.serve.settings import Limits, Settings
from regard.serve.texts.sentences import Split, sentences

DEEPEST = 64  # lists within lists of an input
LIMITED = {"beam": "beam", "n_best": "beam", "samples": "beam", "max_length": "length"}  # options → their limit


@dataclass(frozen=True)
class Answered:
    """The answer to one input: what `surface.to_json` makes of it, and how many tokens were read and said."""

    answer: JsonValue
    read: int = 0
    said: int = 0


@dataclass(frozen=True)
class Token:
    """A token of a text: its number, its name, and where it begins and ends in the characters of the text."""

    number: int
    name: str
    begin: int
    end: int


@dataclass
class Server:
    """Models behind every protocol."""

    registry: Registry
    pool: Pool
    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)
    metrics: Metrics = field(default_factory=Metrics)
    draining: bool = False
    measured: dict[str, int] = field(default_factory=dict)  # versions of models whose speed was measured
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # work that no request waits for

    @classmethod
    def started(cls, settings: Settings, command: list[str]) -> Server:
        """A server without models, whose workers have been started with a command."""
        registry, metrics = Registry(), Metrics()
        pool = Pool(command, settings.workers, registry, metrics, settings.limits.queue, settings.memory)
        pool.start()
        return cls(registry, pool, settings.limits, settings.keys, metrics)

    async def ask(
        self,
        model: str | None,
        inputs: Sequence[object],
        options: Mapping[str, JsonValue] | None = None,
        *,
        detailed: bool = False,
        language: str | None = None,
        split: bool = True,
        cut: bool = False,
    ) -> list[Answered]:
        """An answer to each input, in order. The first input that is refused is a ServeError.

        `inputs` are JSON values as the model's surface reads them, `options` those of `regard run`; `detailed` adds
        what `regard run --json` tells, such as scores and tokens. A text that is too long is split where sentences of
        its `language` end, and so is one whose answer might not fit into `max_length`; with `split` False, it is one of
        the `parts` of a text. What a model cannot split and does not read whole is refused, unless it may be `cut`.
        """
        entry, given = self._found(model), self._options(options)
        self.check(inputs, files=entry.facts.files)
        parts = [await self._split(entry, each, language) if split else None for each in inputs]
        if all(part is None for part in parts):
            return await self._answers(Job(entry, "run", given, detailed, cut), inputs)
        flat = [each for part, whole in zip(parts, inputs, strict=True) for each in (part.parts if part else [whole])]
        answered = iter(await self._answers(Job(entry, "run", given, detailed, cut), flat))
        return [
            next(answered) if part is None else _joined(part, [next(answered) for _ in part.parts]) for part in parts
        ]

    async def look(
        self, model: str | None, given: object, view: Mapping[str, JsonValue], *, line: bool = False
    ) -> Message:
        """The record of one input, for the page; `view` is what `Model.look` takes. A `line` is as one types it."""
        entry = self._found(model)
        if not entry.facts.files:
            readable([given], most=self.limits.looked)
        reply = await self._one(entry, "look", given, {"line": line, **view})
        record: Message = reply["record"]
        return {**record, "model": {**record["model"], "name": entry.name}}  # and not the path of its directory

    async def stream(
        self, model: str | None, given: object, options: Mapping[str, JsonValue] | None = None
    ) -> AsyncIterator[str]:
        """The pieces of one answer as they come. Closing the iterator stops the work."""
        entry = self._found(model)
        if not entry.facts.streams:
            raise refused(f"the answers of model {entry.name!r} come whole; leave out stream")
        self.check([given])
        arrived: asyncio.Queue[Message | None] = asyncio.Queue()
        item = Item(given, _size(given), arrived.put_nowait)
        self.pool.submit(Job(entry, "stream", self._options(options)), [item])
        try:
            while True:
                message = await arrived.get()
                if message is not None and "piece" in message:
                    yield message["piece"]
                    continue
                if (failure := failure_of(message, entry)) is not None:
                    raise failure
                return
        finally:
            self.pool.forget([item])

    async def tokenize(self, model: str | None, texts: Sequence[str]) -> list[list[Token]]:
        """The tokens of texts."""
        self.check(texts)
        entry = self._found(model)
        found = [await self._one(entry, "tokenize", text, {}) for text in texts]
        return [[Token(*row) for row in reply["tokens"][0]] for reply in found]

    async def parts(self, entry: Entry, text: str, *, language: str | None = None) -> Split:
        """The parts in which a text is answered: one, or whole sentences."""
        return await self._split(entry, text, language) or Split([text], ["", ""])

    @staticmethod
    def is_short(entry: Entry, given: object) -> bool:
        """Whether an input is clearly answered in one piece: a token has one byte or more."""
        facts = entry.facts
        return facts.whole is None or not isinstance(given, str) or len(given.encode()) <= facts.together

    async def describe(self, entry: Entry) -> tuple[Facts, str]:
        """What the surface of a model says, and the mark of its files."""
        reply = await self._one(entry, "describe", None, {})
        return Facts.model_validate(reply["facts"]), str(reply["mark"])

    async def open(self, entry: Entry) -> Facts:
        """Read a model in one of the workers, and measure how it is best asked."""
        reply = await self._one(entry, "open", None, {})
        self.pool.budgets[entry.name].measured(reply["budget"], reply["single"])
        return Facts.model_validate(reply["facts"])

    async def reload(self) -> dict[str, str]:
        """Take over the model directories that have changed; each model with what came of it.

        A model that cannot be read is refused, and the one before it stays.
        """
        return {entry.name: await self._reload(entry) for entry in self.registry}

    async def _reload(self, entry: Entry) -> str:
        try:
            mark = mark_of(entry.path)
            if mark == entry.mark:
                return "unchanged"
            after = Entry(entry.name, entry.path, entry.facts, entry.version + 1, mark)
            after.facts = await self.open(after)
        except RegardError as error:
            _log(entry, str(error))
            return f"refused: {UnreadableError(str(error)).sentence}"
        except ServeError as failure:
            return f"refused: {failure.sentence}"
        entry.facts, entry.version, entry.mark = after.facts, after.version, after.mark
        self.tell_of(entry)
        return "reloaded"

    def tell_of(self, entry: Entry) -> None:
        """Let the metrics name the version of a model that is in use."""
        before = (entry.name, entry.facts.task, entry.facts.kind, str(entry.version - 1))
        with suppress(KeyError):
            self.metrics.models.remove(*before)
        self.metrics.models.labels(entry.name, entry.facts.task, entry.facts.kind, str(entry.version)).set(1)

    def check(self, inputs: Sequence[object], *, files: bool = False) -> None:
        """Refuse inputs that are too many, too long, or hold what is no text. Files are limited by the body alone."""
        if not 0 < len(inputs) <= self.limits.batch:
            raise refused(f"a request holds 1 to {self.limits.batch} inputs, and this one {len(inputs)}", 413)
        readable(inputs, most=self.limits.body if files else self.limits.characters)

    def _found(self, model: str | None) -> Entry:
        """The model that a request asks; the metrics count it."""
        entry = self.registry.find(model)
        asked.set(entry.name)
        return entry

    def _options(self, options: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {name: value for name, value in (options or {}).items() if value is not None}
        for name, limit in LIMITED.items():
            value, most = found.get(name), getattr(self.limits, limit)
            if isinstance(value, int | float) and value > most:
                raise refused(f"{name} is {value}; this server allows at most {most}")
        return found

    async def _split(self, entry: Entry, given: object, language: str | None) -> Split | None:
        """The parts of a text that may be too long to be answered in one piece.

        A worker, which knows the tokens, is asked only if it is not clear without it.
        """
        facts = entry.facts
        if self.is_short(entry, given) or not isinstance(given, str) or facts.whole is None:
            return None
        own = language or (facts.languages[0] if facts.languages else "en")
        if len(given.encode()) <= facts.whole and len(sentences(given, language=own).parts) <= 1:
            return None
        reply = await self._one(entry, "split", given, {"language": own})
        found = Split(reply["parts"], reply["between"])
        return found if len(found.parts) > 1 else None

    async def _answers(self, job: Job, inputs: Sequence[object]) -> list[Answered]:
        replies = await self._replies(job, inputs)
        self._measure(job.entry)
        return [Answered(reply["found"], reply["read"], reply["said"]) for reply in replies]

    def _measure(self, entry: Entry) -> None:
        """After its first answer, measure how a model is best asked, while nobody waits for that."""
        if self.measured.get(entry.name) == entry.version:
            return
        self.measured[entry.name] = entry.version

        async def measure() -> None:
            with suppress(ServeError):
                await self.open(entry)

        self.in_background(measure())

    def in_background(self, work: Coroutine[None, None, None]) -> None:
        """Do what no request waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _one(self, entry: Entry, verb: str, given: object, options: dict[str, JsonValue]) -> Message:
        (reply,) = await self._replies(Job(entry, verb, options), [given])
        return reply

    async def _replies(self, job: Job, inputs: Sequence[object], *, again: bool = True) -> list[Message]:
        """What the workers reply to each input. If the client leaves, inputs that still wait are forgotten.

        A model that no worker holds any more, and whose files were replaced meanwhile, is taken over.
        """
        loop = asyncio.get_running_loop()
        done, left = loop.create_future(), len(inputs)
        replies: list[Message | None] = [None] * len(inputs)

        def replied(place: int, message: Message | None) -> None:
            nonlocal left
            replies[place] = message
            left -= 1
            if left == 0 and not done.done():
                done.set_result(None)

        items = [
            Item(given, _size(given), lambda message, place=place: replied(place, message))  # type: ignore[misc]
            for place, given in enumerate(inputs)
        ]
        self.pool.submit(job, items)
        try:
            await done
        except asyncio.CancelledError:
            self.pool.forget(items)
            raise
        if again and job.verb != "open" and any(reply is not None and "changed" in reply for reply in replies):
            await self._reload(job.entry)
            return await self._replies(job, inputs, again=False)
        found = []
        for reply in replies:
            if (failure := failure_of(reply, job.entry)) is not None:
                if isinstance(failure, UnreadableError) and job.verb != "describe":  # that is said when the server ends
                    _log(job.entry, failure.why)
                raise failure
            assert reply is not None
            found.append(reply)
        return found


def _log(entry: Entry, said: str) -> None:
    print(f"regard: {entry.name}: {said}", file=sys.stderr, flush=True)


def readable(inputs: Sequence[object], *, most: int) -> None:
    """Refuse texts that are too long together, or hold what is no character."""
    total = 0
    for text in _texts(inputs, DEEPEST):
        total += len(text)
        if "\0" in text or not _is_unicode(text):
            raise refused("a text holds a NUL or half a character; type it again")
    if total > most:
        raise refused(f"the request has {total:,} characters; at most {most:,} are read", 413)


def _is_unicode(text: str) -> bool:
    """Whether a text can be written in UTF-8; half of a surrogate pair cannot."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _joined(split: Split, parts: Sequence[Answered]) -> Answered:
    """The best answers to the parts of a text as one."""
    best = [part.answer[0] for part in parts if isinstance(part.answer, list) and part.answer]
    rows = [each for each in best if isinstance(each, dict)]
    whole: dict[str, JsonValue] = {
        "text": split.joined([str(each["text"]) for each in rows]),
        "score": sum(float(str(each["score"])) for each in rows),
    }
    if rows and "tokens" in rows[0]:
        whole["tokens"] = [token for each in rows for token in each["tokens"]]  # type: ignore[union-attr]
    if any("truncated" in each for each in rows):
        whole["truncated"] = True
    return Answered([whole], sum(part.read for part in parts), sum(part.said for part in parts))


def _texts(value: object, depth: int) -> list[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        return [value]
    if depth == 0:
        raise refused(f"an input is nested more than {DEEPEST} levels deep; make it simpler")
    if isinstance(value, Mapping):
        return [text for pair in value.items() for each in pair for text in _texts(each, depth - 1)]
    if isinstance(value, Sequence):
        return [text for each in value for text in _texts(each, depth - 1)]
    return []


def _size(given: object) -> int:
    """How long an input is, in characters."""
    return sum(map(len, _texts(given, DEEPEST)))
