"""A model that reads texts and answers with something else: labels, tags, spans, words for gaps, vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.labelled import read_all, read_sets
from regard.jobs.base import Model, paths
from regard.look.reading import capture_reading
from regard.look.record import Record
from regard.look.statistics import statistics
from regard.recipes import Recipe
from regard.tasks.reading import Sight
from regard.tasks.scores import Score


class ReadingModel(Model):
    """What all of them can do: answer, and be looked at."""

    def __init__(self, path: Path, recipe: Recipe, module: nn.Module, task: Any, report: dict[str, Any]) -> None:
        super().__init__(path, recipe, module, report)
        self.task = task

    def __call__(self, text: Any) -> Any:
        return (
            self.task.answer(self.module, text) if isinstance(text, list) else self.task.answer(self.module, [text])[0]
        )

    def look(
        self, text: Any, *, reference: str | None = None, layer: int | None = None, head: int | None = None
    ) -> Record:
        sight = self._sight(text)
        if reference is not None:
            sight = sight.saying(reference)
        only = f"*_layers.{layer}.*" if layer is not None and self.recipe.kind == "elmo" else paths(layer)
        return self.named(capture_reading(self.module, self.task.reading, sight, only=only, head=head))

    def habits(self, texts: Iterable[Any]) -> dict[str, Any]:
        sights = map(self._sight, texts)
        return statistics(capture_reading(self.module, self.task.reading, sight, gradients=False) for sight in sights)

    def _sight(self, text: Any) -> Sight:
        sight: Sight = self.task.sight(self.module, text)
        return sight


class Reader(ReadingModel):
    """A trained model that answers texts in the shapes of Hugging Face's pipelines; a list gives a list."""

    def __init__(
        self,
        path: Path,
        recipe: Recipe,
        module: nn.Module,
        task: Any,
        report: dict[str, Any],
        *,
        read: Callable[[str, Any], Iterator[Any]],
    ) -> None:
        super().__init__(path, recipe, module, task, report)
        self.pairs = recipe.task not in ("tag", "embed")
        self._read = read

    def evaluate(self, data: Any = None) -> dict[str, Score]:
        """The task's scores on a file, or on the recipe's own data (see `judged_on`)."""
        config = self.recipe.data
        read = lambda name: self._read(name, config)  # noqa: E731
        named = data if data is not None else config.test or config.valid
        if named is None:
            return self.task.scores(self.module, read_sets(config, read, seed=self.recipe.training.seed).valid)
        return self.task.scores(
            self.module, read_all(str(named) if isinstance(named, Path) else named, read, key="data")
        )

    def read(self, line: str) -> Any:
        """A line asks about a text, or with a tab in it about two."""
        first, tab, second = line.partition("\t")
        return (first, second) if tab else line

    def shown(self, answer: Any) -> list[str]:
        return self.task.shown(answer)
