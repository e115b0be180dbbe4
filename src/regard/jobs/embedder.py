"""The job of the task embed: a model that turns texts into vectors. It is imported, or the body of one trained here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from regard import models
from regard.data.tokenizers import Tokenizers
from regard.errors import RegardError
from regard.jobs.base import Model, Prepared
from regard.jobs.bodies import framing_of
from regard.jobs.reader import ReadingModel
from regard.jobs.stored import read_report, read_weights
from regard.recipes import Recipe
from regard.tasks.embed import Embed
from regard.tasks.reading import Reading
from regard.tasks.scores import Score
from regard.training.checkpoint import load_weights


class EmbedJob:
    """Nothing is trained here yet."""

    form: Literal["encoder"] = "encoder"

    def prepare(self, recipe: Recipe, path: Path, *, begun: bool, console: Console) -> Prepared:  # noqa: ARG002
        raise RegardError('task = "embed" is not trained; bring a model with: regard import DIR -o MODEL')

    def load(self, recipe: Recipe, path: Path) -> Model:
        model: Any = recipe.model
        tokenizers = Tokenizers.load(path, special=model.special)
        module = models.from_config(model, vocabulary=tokenizers.source.size)
        load_weights(module, read_weights(path), origin=path)
        task = Embed(Reading(tokenizers.source, framing_of(model)), pooling=model.pooling or "mean")
        return Embedder(path, recipe, module.eval(), task, read_report(path))


class Embedder(ReadingModel):
    """A text → its vector; a list gives a list."""

    def evaluate(self, data: Any = None) -> dict[str, Score]:  # noqa: ARG002
        raise RegardError(f'{self.path} is a model for task = "embed", which has no scores of its own')

    def shown(self, answer: Any) -> list[str]:
        return [" ".join(f"{number:.6g}" for number in answer)]
