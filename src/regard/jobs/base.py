"""What every job has in common: what it prepares for training, and the model that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, overload

from rich.console import Console
from torch import nn

from regard.look.record import Record
from regard.models import Form
from regard.recipes import Recipe
from regard.tasks.answers import Answer
from regard.tasks.scores import Score
from regard.training.run import Objective, Stream, Task


class Model:
    """A trained model: call it with a text, or with a list of them. What else it can do depends on its task."""

    pairs = False  # whether a line may hold two texts, with a tab between

    def __init__(self, path: Path, recipe: Recipe, module: nn.Module, report: dict[str, Any]) -> None:
        self.path = path
        self.recipe = recipe
        self.module = module
        self.report = report

    def __call__(self, text: Any) -> Any:
        """One answer; a list gives a list."""
        raise NotImplementedError

    def evaluate(self, data: Any = None) -> dict[str, Score]:
        """The task's scores on the recipe's test data, or on other."""
        raise NotImplementedError

    def look(
        self, text: Any, *, reference: str | None = None, layer: int | None = None, head: int | None = None
    ) -> Record:
        """What the model looks at when it answers `text`, or when it is made to answer `reference`.

        With `layer` or `head`, no other weights are computed. The record shows itself in a notebook;
        `.save("look.html")` writes the page, .png a picture, .json the numbers.
        """
        raise NotImplementedError

    def habits(self, texts: Iterable[Any]) -> dict[str, Any]:
        """What each head tends to do, averaged over many texts: `statistics` of a record."""
        raise NotImplementedError

    def read(self, line: str) -> Any:
        """What a line of text asks; for most tasks, itself."""
        return line

    def shown(self, answer: Any) -> list[str]:
        """An answer as lines for a terminal."""
        return [str(answer)]

    def named(self, record: Record) -> Record:
        """The record with the name of this model on it."""
        return replace(record, model={"name": str(self.path), "kind": self.recipe.kind, "task": self.recipe.task})

    @property
    def judged_on(self) -> str:
        """What `evaluate` takes unless other data is given."""
        data = self.recipe.data
        return "data.test" if data.test else "data.valid" if data.valid else "what was held out of data.train"


class Answering(Model):
    """A model that answers a text with texts."""

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: list[str]) -> list[str]: ...
    def __call__(self, text: str | list[str]) -> str | list[str]:
        """The best answer; a list gives a list."""
        if isinstance(text, str):
            return self.answers([text])[0][0].text
        return [found[0].text for found in self.answers(text)]

    def answers(self, texts: Sequence[str]) -> list[list[Answer]]:
        """The answers to each text, best first, with their scores."""
        raise NotImplementedError


def paths(layer: int | None) -> str:
    """The pattern of the paths of what looks in a layer; None for all."""
    return "*" if layer is None else f"*.{layer}.*"


class Final(Protocol):
    """What a trained model is judged by; once called, `signatures` say how each score came about."""

    signatures: dict[str, str]

    def __call__(self, module: nn.Module) -> dict[str, float]: ...


@dataclass(frozen=True)
class Prepared:
    """Everything there is to a run before its first step."""

    module: nn.Module
    task: Task
    batches: Stream
    objective: Objective
    validate: Callable[[nn.Module], dict[str, float]]
    final: Final
    learned_from: str  # a checksum: a run goes on with the data it began with
    summary: str  # what is about to be trained, and on what
    finish: Callable[[dict[str, Any]], Model]  # from the report to the model, with whatever else belongs beside it


class Job(Protocol):
    """How a task is prepared, and how what it trained is loaded."""

    @property
    def forms(self) -> tuple[Form, ...]:
        """Of the models that can do it."""

    def prepare(self, recipe: Recipe, path: Path, *, begun: bool, console: Console) -> Prepared:
        """Read the data and build the model, in a directory where something was `begun` before or not."""

    def load(self, recipe: Recipe, path: Path) -> Model:
        """The model of a directory, its weights in place."""
