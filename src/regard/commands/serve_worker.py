"""The process of a worker of `regard serve`: models are opened as `regard run` opens them, for one thread."""

from __future__ import annotations

import json
import signal
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regard import tasks
from regard.commands.run import longest_of, task_named
from regard.decoding.config import DecodingConfig
from regard.directory import ModelDirectory
from regard.engines.channel import Channel
from regard.engines.choose import EngineName, without_torch
from regard.engines.ctranslate2.plans import Plan, Precision
from regard.engines.light import Tells
from regard.errors import RegardError, cut
from regard.interchange.expressible import obstacle, reach
from regard.serve.registry import Facts
from regard.serve.worker import Worker
from regard.tasks.base import Engine, RunOptions

if TYPE_CHECKING:
    from regard.api.model import Model

EXPANSION = 2  # tokens of an answer for each token of a text, for which there must be room


@dataclass(frozen=True)
class Models:
    """Opens model directories."""

    runtime: EngineName = "auto"
    compute_type: Precision = "measured"
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
        self.decoding = tables.get("decoding", {})
        self.codec = directory.codec(directory.special())
        self.tokenizers = self.codec.tokenizers
        chosen = without_torch(
            directory,
            self.surface,
            self._options({}, detailed=False),
            self.codec,
            wanted=models.runtime,
            compute_type=models.compute_type,
            plan=Plan("float32", workers=1, threads=1),
        )
        self.engine = None if isinstance(chosen, str) else chosen
        if self.engine is None:
            self.torch.module.eval()  # read now, so that a damaged model is refused now
        else:
            self.engine.open(self._options({}, detailed=False))

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
        options = self._options(given, detailed=False)
        engine = self._engine(options)
        return engine.pieces(asked, options) if isinstance(engine, Tells) else self.torch.pieces(asked, options)

    def _options(self, given: Mapping[str, Any], *, detailed: bool) -> RunOptions:
        return RunOptions.of(self.decoding, given, as_json=detailed)

    def _engine(self, options: RunOptions) -> Engine[Any, Any]:
        """What answers with these options."""
        if self.engine is None:
            return self.torch
        reason = self.engine.reason(options)
        if reason is not None and self.runtime == "ctranslate2":
            raise RegardError(f"the server answers with CTranslate2 alone, which cannot do this: {reason}")
        return self.engine if reason is None else self.torch


def facts_of(directory: ModelDirectory) -> Facts:
    """What the surface of a model says; its weights are not read."""
    tables = directory.tables()
    name = task_named(tables, directory)
    surface, model = tasks.surface(name), tables.get("model", {})
    whole = longest_of(_reach(directory, model)) if surface.splits else None
    languages = tables.get("data", {}).get("languages") or ()
    return Facts(
        task=name,
        pipeline=surface.pipeline,
        answers=surface.answers,
        example=surface.example,
        options=surface.options - {"runtime", "compute_type"},
        files=surface.files,
        two_texts=surface.two_texts,
        streams=surface.streams,
        whole=whole,
        together=min(whole or 0, _answer_length(tables) // EXPANSION),
        kind=str(model.get("kind", "")),
        languages=tuple(map(str, languages)),
    )


def _answer_length(tables: Mapping[str, Any]) -> int:
    """How many tokens an answer may have."""
    return int(tables.get("decoding", {}).get("max_length", DecodingConfig().max_length))


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
    warnings.formatwarning = lambda message, *_, **__: f"regard: {cut(message)}\n"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    models = Models(cast(EngineName, runtime), cast(Precision, compute_type), json.loads(languages))
    with socket.socket(fileno=int(descriptor)) as connection:
        Worker(models, Channel(connection)).work()


if __name__ == "__main__":
    main()
