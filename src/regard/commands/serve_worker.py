"""The process of a worker of `regard serve`: models are opened as `regard run` opens them, for one thread."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regard import tasks
from regard.commands.run import longest_of, task_named
from regard.decoding.config import shortened
from regard.directory import ModelDirectory
from regard.engines.choose import EngineName, without_torch
from regard.engines.ctranslate2.engine import CTranslate2Engine
from regard.engines.ctranslate2.offers import reason_for_torch
from regard.engines.ctranslate2.plans import ComputeType, Plan
from regard.errors import RegardError
from regard.interchange.expressible import obstacle, reach
from regard.serve.channel import Channel
from regard.serve.registry import Facts
from regard.serve.worker import Worker
from regard.tasks.base import Engine, RunOptions, Streams
from regard.tasks.surfaces import TextToTexts

if TYPE_CHECKING:
    from regard.api.model import Model


@dataclass(frozen=True)
class Models:
    """Opens model directories."""

    runtime: EngineName = "auto"
    compute_type: ComputeType = "float32"
    languages: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of directories, instead of the recipe's

    def describe(self, path: Path) -> Facts:
        facts = facts_of(ModelDirectory(path))
        return facts.model_copy(update={"languages": tuple(self.languages.get(str(path), facts.languages))})

    def open(self, path: Path) -> OpenedModel:
        return OpenedModel(ModelDirectory(path), self)


class OpenedModel:
    """A model directory in use: CTranslate2 answers where it gives the same answers, and torch elsewhere."""

    def __init__(self, directory: ModelDirectory, models: Models) -> None:
        self.directory, self.runtime = directory, models.runtime
        self.facts, tables = models.describe(directory.path), directory.tables()
        self.surface = tasks.surface(self.facts.task)
        self.table, self.decoding = tables["model"], tables.get("decoding", {})
        self.codec = directory.codec(directory.special())
        self.tokenizers = self.codec.tokenizers
        chosen = without_torch(
            directory,
            self.surface,
            self._options({}, detailed=False),
            self.codec,
            wanted=models.runtime,
            compute_type=models.compute_type,
            plan=Plan(models.compute_type, workers=1, threads=1),
        )
        self.engine = chosen if isinstance(chosen, CTranslate2Engine) else None
        if self.engine is None:
            self.torch.module.eval()  # read now, so that a damaged model is refused now
        else:
            own = self._options({}, detailed=False)
            quick = replace(own, decoding=shortened(own.decoding, 1))
            list(self.engine.answer_all(["."], quick, together=1))

    @cached_property
    def torch(self) -> Model:
        import torch

        from regard.api.loading import load

        torch.set_num_threads(1)
        return load(self.directory.path)

    def answers(self, asked: Sequence[object], given: Mapping[str, Any], *, detailed: bool) -> list[object]:
        if not asked:
            return []
        self.surface.accept(given)
        options = self._options(given, detailed=detailed)
        return list(self._engine(options).answer_all(asked, options, together=self.surface.together))

    def look(self, asked: object, view: Mapping[str, Any]) -> dict[str, Any]:
        return self.torch.look(asked, **view).to_json()

    def pieces(self, asked: object, given: Mapping[str, Any]) -> Iterator[str]:
        self.surface.accept(given)
        return self.torch.pieces(asked, self._options(given, detailed=False))

    def _options(self, given: Mapping[str, Any], *, detailed: bool) -> RunOptions:
        return RunOptions.of(self.decoding, given, as_json=detailed)

    def _engine(self, options: RunOptions) -> Engine[Any, Any]:
        """What answers with these options."""
        if self.engine is None:
            return self.torch
        target = self.codec.texts().target
        prefix = target.encode([options.prefix])[0] if options.prefix else []
        reason = reason_for_torch(self.table, options.decoding, vocabulary=target.size, prefix=prefix)
        if reason is not None and self.runtime == "ctranslate2":
            raise RegardError(f"the server answers with CTranslate2 alone, which cannot do this: {reason}")
        return self.engine if reason is None else self.torch


def facts_of(directory: ModelDirectory) -> Facts:
    """What the surface of a model says; its weights are not read."""
    tables = directory.tables()
    name = task_named(tables, directory)
    surface, model = tasks.surface(name), tables.get("model", {})
    fast = isinstance(surface, TextToTexts) and "runtime" in surface.options  # torch need not be imported
    languages = tables.get("data", {}).get("languages") or ()
    return Facts(
        task=name,
        pipeline=surface.pipeline,
        answers=surface.answers,
        example=surface.example,
        options=surface.options - {"runtime", "compute_type"},
        files=surface.files,
        two_texts=surface.two_texts,
        streams=not fast and issubclass(tasks.task(name), Streams),
        whole=longest_of(_reach(directory, model)) if fast else None,
        kind=str(model.get("kind", "")),
        languages=tuple(map(str, languages)),
    )


def _reach(directory: ModelDirectory, model: Mapping[str, Any]) -> int | None:
    """How many positions a model has, if they are limited."""
    if obstacle(model) is None:
        return reach(model)
    from regard.api.loading import stored_recipe

    return stored_recipe(directory).model.reads()


def main() -> None:
    """Answer the messages of a server. The arguments are the runtime, the compute type, the languages of directories
    as JSON, and a file descriptor."""
    runtime, compute_type, languages, descriptor = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    models = Models(cast(EngineName, runtime), cast(ComputeType, compute_type), json.loads(languages))
    with socket.socket(fileno=int(descriptor)) as connection:
        Worker(models, Channel(connection)).work()


if __name__ == "__main__":
    main()
