"""`regard run`: lines in, answers out, in order, for every task. Torch is imported only if it has to answer."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from regard import tasks
from regard.commands.judging import judge_once
from regard.commands.long_lines import LONGEST, joined, pieces
from regard.commands.unknown import Unknown
from regard.directory import ModelDirectory
from regard.durable import is_file
from regard.engines.choose import EngineName, without_torch
from regard.engines.ctranslate2.plans import Precision
from regard.engines.light import LightEngine, Tells
from regard.errors import RegardError
from regard.tasks.base import AnySurface, Codec, Engine, RunOptions
from regard.tasks.surfaces import NOTHING

ARGUMENT = "input"  # what errors call an input that was an argument of the command, and not a line

MUCH = 30.0  # seconds of answering after which faster forms are compared with float32, for at most as long again


@dataclass(frozen=True)
class Asking:
    """A model directory in use: its surface, how to answer, and the engine that answers."""

    surface: AnySurface
    options: RunOptions
    engine: Engine[Any, Any]
    codec: Codec
    longest: int | None = (
        None  # tokens of a text that are answered in one piece; None: the task handles long texts itself
    )
    pieces: Callable[[Any, RunOptions], Iterator[str]] | None = (
        None  # gives one answer in pieces, as they are generated
    )


@dataclass(frozen=True)
class Line:
    """A line of input and its parsed inputs: several where it was split, none where it is too long."""

    number: int
    text: str
    parts: list[Any]


def run(
    path: Path,
    groups: Iterable[Iterable[str]],
    given: Mapping[str, Any],
    *,
    as_json: bool = False,
    at_once: bool = False,
    named: str = "line",
) -> None:
    """Answer lines and print the answers. The lines of a group may be answered together; the next group may not have
    arrived yet.

    `given` are the options of the command line that were given; `at_once` answers each line by itself; `named` is what
    errors call a line.
    """
    asking = prepare(path, given, as_json=as_json)
    answering = _Answering(asking, 1 if at_once else asking.surface.together, named)
    surface, options, printed = asking.surface, asking.options, 0
    for line, answer in answering.answers(groups, stream=not as_json):
        if as_json:
            print(json.dumps({"input": line.text, "answers": surface.to_json(answer)}, ensure_ascii=False), flush=True)
            continue
        for text in [answer] if isinstance(answer, Iterator) else surface.lines(answer, options):
            if printed and surface.between is not None:
                print(surface.between)
            for piece in text if isinstance(text, Iterator) else [text]:
                print(piece, end="", flush=True)
            print(flush=True)
            printed += 1
    if answering.unknown is not None and answering.unknown.unknown:
        _tell(str(answering.unknown))
    if _has_answered_much(asking, answering, given):
        judge_once(path, seconds=answering.seconds)
    if answering.refused:
        raise RegardError(f"{answering.refused:,} of {answering.read:,} {named}s have an empty answer: see above")


def _has_answered_much(asking: Asking, answering: _Answering, given: Mapping[str, Any]) -> bool:
    """Whether a faster form might have saved much, and may answer next time."""
    free = "compute_type" not in given and isinstance(asking.engine, LightEngine)
    return free and answering.seconds >= MUCH


def prepare(path: Path, given: Mapping[str, Any], *, as_json: bool = False) -> Asking:
    """Check the options against the task, and choose the engine."""
    directory = ModelDirectory(path)
    tables = directory.tables()
    surface = tasks.surface(task_named(tables, directory))
    surface.accept(given)
    options = RunOptions.of(tables.get("decoding", {}), given, as_json=as_json)
    codec = directory.codec(directory.special())
    wanted: EngineName = given.get("runtime", "auto")
    compute_type: Precision = given.get("compute_type", "measured")
    found = without_torch(directory, surface, options, codec, wanted=wanted, compute_type=compute_type)
    if not isinstance(found, str):
        told = found.pieces if isinstance(found, Tells) and options.decoding.n_best == 1 else None
        return Asking(surface, options, found, codec, longest_of(found.learned) if surface.splits else None, told)
    from regard.api.loading import load

    model = load(path, why=found)
    streams = model.streams and options.decoding.n_best == 1
    longest = longest_of(model.recipe.model.reads()) if surface.splits else None
    return Asking(surface, options, model, codec, longest, model.pieces if streams else None)


def longest_of(positions: int | None) -> int:
    """How many tokens a text may have; EOS takes one of the positions of a model, if these are limited."""
    return LONGEST if positions is None else min(LONGEST, positions - 1)


class _Answering:
    """Answers lines in order, and counts unknown tokens and lines that are too long."""

    def __init__(self, asking: Asking, together: int, named: str) -> None:
        self.asking, self.together, self.named = asking, together, named
        texts = asking.codec.tokenizers
        self.unknown = None if texts is None or asking.surface.files else Unknown(texts.source)
        self.read = self.refused = 0
        self.seconds = 0.0  # that the engine has taken
        self._numbers = count(1)
        self._wrong: RegardError | None = None

    def answers(self, groups: Iterable[Iterable[str]], *, stream: bool) -> Iterator[tuple[Line, Any]]:
        """Each line with its answer, or with the pieces of its answer as they come.

        An error in a line is raised after the lines before it have been answered.
        """
        pieces = self.asking.pieces if stream else None
        for group in groups:
            if pieces is None:
                yield from self._together(group)
            else:
                for line in self._lines(group):
                    yield line, self._told(line, pieces)
            if self._wrong is not None:
                raise self._wrong

    def _told(self, line: Line, pieces: Callable[[Any, RunOptions], Iterator[str]]) -> Iterator[str]:
        with self._naming(line):
            yield from pieces(line.parts[0], self.asking.options)

    def _together(self, group: Iterable[str]) -> Iterator[tuple[Line, Any]]:
        waiting = deque[Line]()

        def asked() -> Iterator[Any]:
            for line in self._lines(group):
                waiting.append(line)
                yield from line.parts

        found: list[Any] = []
        try:
            answers = self.asking.engine.answer_all(asked(), self.asking.options, together=self.together)
            for answer in self._timed(answers):
                while not waiting[0].parts:
                    yield waiting.popleft(), self._nothing()
                found.append(answer)
                if len(found) == len(waiting[0].parts):
                    yield self._whole(waiting.popleft(), found)
                    found = []
        except RegardError:
            yield from self._one_by_one(waiting)
            raise
        for line in waiting:
            yield line, self._nothing()

    def _timed(self, answers: Iterator[Any]) -> Iterator[Any]:
        begin = time.perf_counter()
        for answer in answers:
            self.seconds += time.perf_counter() - begin
            yield answer
            begin = time.perf_counter()

    def _one_by_one(self, lines: Iterable[Line]) -> Iterator[tuple[Line, Any]]:
        """Answer lines of which at least one cannot be answered, up to that one."""
        for line in lines:
            with self._naming(line):
                found = list(self.asking.engine.answer_all(line.parts, self.asking.options, together=1))
            yield self._whole(line, found)

    def _whole(self, line: Line, found: list[Any]) -> tuple[Line, Any]:
        if len(found) < 2:
            return line, found[0] if found else self._nothing()
        return line, joined(line.parts, found)

    def _nothing(self) -> list[Any]:
        options = self.asking.options
        return [replace(NOTHING, alignment=() if options.alignment else None, pieces=() if options.tokens else None)]

    def _lines(self, group: Iterable[str]) -> Iterator[Line]:
        """The lines of a group, up to one that cannot be read; its error is raised later."""
        remaining = self._readable(group)
        while texts := list(islice(remaining, self.together)):
            self._warn_of_files(texts)
            rows = [] if self.unknown is None else self.unknown.read(texts)
            for place, text in enumerate(texts):
                line = Line(next(self._numbers), text, [])
                self.read += 1
                try:
                    with self._naming(line):
                        line.parts.append(self.asking.surface.parse(text))
                except RegardError as error:
                    self._wrong = error
                    return
                if self.asking.longest is not None and rows and len(rows[place]) > self.asking.longest:
                    line.parts[:] = self._split(line, len(rows[place]), self.asking.longest)
                yield line

    def _warn_of_files(self, texts: Iterable[str]) -> None:
        """Say that an argument which names a file is answered as a text, where that is so."""
        if self.named == ARGUMENT and not self.asking.surface.files:
            for file in filter(is_file, texts):
                _tell(f"{file} is answered as a text; for the lines of the file: regard run MODEL < {file}")

    def _readable(self, group: Iterable[str]) -> Iterator[str]:
        try:
            yield from group
        except RegardError as error:
            self._wrong = error

    def _split(self, line: Line, length: int, longest: int) -> list[str]:
        """The pieces of a line that is too long; nothing where it cannot be split."""
        options, texts = self.asking.options, self.asking.codec.texts()
        if not options.scores and not options.prefix:
            if found := pieces(line.text, tokenizer=texts.source, longest=longest):
                return found
            why = f"one of its sentences has more than {longest:,}; break it into lines"
        else:
            why = f"more than {longest:,} are not answered with --json, --n-best or --prefix; break it into lines"
        self.refused += 1
        _tell(f"{self.named} {line.number:,} has {length:,} tokens, and {why}")
        return []

    @contextmanager
    def _naming(self, line: Line) -> Iterator[None]:
        """Begin an error with the number of the line."""
        try:
            yield
        except RegardError as error:
            raise RegardError(f"{self.named} {line.number:,}: {error}") from None


def _tell(text: str) -> None:
    print(f"regard: {text}", file=sys.stderr)


def task_named(tables: Mapping[str, Any], directory: ModelDirectory) -> str:
    name = tables.get("task")
    if not isinstance(name, str) or name not in tasks.TASKS:
        raise RegardError(
            f"{directory.path}: recipe.toml names no task that regard knows; copy the model directory again"
        )
    return name
