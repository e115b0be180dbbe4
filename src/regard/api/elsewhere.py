"""Lists of inputs are answered by the engine that `regard run` would choose, in a process without torch.

Starting a process costs about as much as answering some dozens of short texts in torch, so a shorter list does not
start one. Once it runs, it answers every call. Torch answers whatever the files on disk would not: see `_obstacle`.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard import tasks
from regard.api.unchanged import Unchanged
from regard.attention.recorder import recorded
from regard.checking import Settings, check
from regard.directory import ModelDirectory
from regard.engines.choose import EngineName, engine_of, refuse, settled
from regard.engines.ctranslate2.apart import Apart, EndedError
from regard.engines.ctranslate2.cache import Stamp, stamp
from regard.engines.ctranslate2.plans import Precision
from regard.engines.ctranslate2.precision import switches_of
from regard.engines.light import AnyLightEngine
from regard.errors import RegardError
from regard.tasks.base import TOGETHER, RunOptions

STARTS = 32  # inputs of a list that starts the process: small models of pairs were measured, greedy and with a beam
TRIES = 2  # processes that may end while they answer a list


class Choice(Settings):
    """What `regard run` is told by --runtime and --compute-type."""

    runtime: EngineName = "auto"
    compute_type: Precision = "measured"


class Elsewhere:
    """Answers for a module that was loaded from a directory, as long as it is what the directory holds."""

    def __init__(self, path: Path, module: nn.Module, *, loaded: Stamp) -> None:
        self._directory, self._module, self._loaded = ModelDirectory(path), module, loaded
        self._unchanged = Unchanged(module)
        self._given_up = False
        self._begin()

    def _begin(self) -> None:
        self._owner, self._lock = os.getpid(), threading.RLock()
        self._apart: Apart | None = None
        self._engines: dict[Precision, AnyLightEngine | str] = {}

    def answers(
        self, module: nn.Module, task: str, asked: Sequence[Any], options: RunOptions, given: Mapping[str, Any]
    ) -> list[Any] | None:
        """The answers to parsed inputs; None if torch has to answer."""
        choice = check(Choice, {name: given[name] for name in Choice.model_fields if name in given}, where="options")
        if self._owner != os.getpid():  # a forked copy, which shares no process with the original
            self._begin()
        with self._lock:
            found = self._answered(module, task, asked, options, choice)
        if not isinstance(found, str):
            return found
        if choice.runtime == "ctranslate2":
            raise RegardError(f"runtime='ctranslate2' cannot answer this: {found}; leave it out to use torch")
        refuse(choice.compute_type, found)
        return None

    def _answered(
        self, module: nn.Module, task: str, asked: Sequence[Any], options: RunOptions, choice: Choice
    ) -> list[Any] | str:
        """The answers, or the reason why torch has to give them."""
        if reason := self._obstacle(module, len(asked), choice):
            return reason
        for _ in range(TRIES):
            engine = self._engine(task, choice.compute_type)
            if isinstance(engine, str):
                return engine
            if reason := engine.reason(options) or _unscored(options):
                return reason
            try:
                return self._asked(engine, asked, options)
            except EndedError:
                self._begin()
            except (RegardError, RuntimeError) as error:  # torch gives the answer, or the same error
                return str(error)
        self._given_up = True
        warnings.warn(f"the process of CTranslate2 ended {TRIES} times; torch answers from now on", stacklevel=2)
        return "its process ended"

    def _obstacle(self, module: nn.Module, inputs: int, choice: Choice) -> str | None:
        """Why torch has to answer, before an engine is asked."""
        if choice.runtime == "torch":
            return "runtime='torch' was given"
        if self._given_up:
            return "its process ended"
        if recorded():
            return "weights are being recorded"
        if module is not self._module:
            return "the module is not the one that was loaded"
        asked_for = choice.runtime == "ctranslate2" or choice.compute_type in ("int8", "auto")
        if inputs < STARTS and not asked_for and not self.runs:
            return f"fewer than {STARTS} inputs start no process"
        if stamp(self._directory.path) != self._loaded:
            return "the files of the model have changed since it was loaded"
        return None

    @property
    def runs(self) -> bool:
        """Whether the process is there."""
        return self._apart is not None and self._apart.alive

    def _engine(self, task: str, precision: Precision) -> AnyLightEngine | str:
        """The engine in the process, which is started if it is not there."""
        if self._apart is not None and not self._apart.alive:
            self._begin()
        if precision not in self._engines:
            directory, surface = self._directory, tasks.surface(task)
            codec = directory.codec(directory.special())
            self._engines[precision] = engine_of(directory, surface, codec, settled(directory, precision), None)
        engine = self._engines[precision]
        if not isinstance(engine, str) and engine.apart is None:
            self._apart = self._apart or Apart(switches=switches_of(self._directory))
            engine.apart = self._apart
        return engine

    def _asked(self, engine: AnyLightEngine, asked: Sequence[Any], options: RunOptions) -> list[Any] | str:
        """The answers; whether the module is unchanged is looked up while they are computed."""
        assert self._apart is not None
        unchanged: list[bool] = []

        def look() -> None:
            unchanged.append(self._unchanged.holds(self._module))

        self._apart.meanwhile = look
        try:
            found = list(engine.answer_all(asked, options, together=TOGETHER))
        finally:
            self._apart.meanwhile = None
        if not unchanged:  # all texts were empty
            look()
        return found if unchanged[0] else "the module was changed after it was loaded"


def _unscored(options: RunOptions) -> str | None:
    """Why the scores of an answer would be missing there."""
    if options.scores and options.decoding.coverage_penalty:
        return "with coverage_penalty, CTranslate2 gives no log p of tokens"
    return None
