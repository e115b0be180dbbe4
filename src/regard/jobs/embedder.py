"""The job of the task embed: one text in, one vector out, learned from pairs that mean the same; or imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from regard.data.labelled import Sets
from regard.data.similar import Similar, read_similar
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.jobs.base import Model
from regard.jobs.bodies import framing_of
from regard.jobs.reader import Reader
from regard.jobs.readers import BodyJob
from regard.recipes import Recipe
from regard.tasks.embed import Embed
from regard.tasks.reading import Reading
from regard.tasks.scores import Score
from regard.training.run import Objective


class EmbedJob(BodyJob):
    """The body itself learns, and has no head."""

    def _task(self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str]) -> Embed:  # noqa: ARG002
        model: Any = recipe.model
        reading = Reading(tokenizer, framing_of(model, max_length=recipe.data.max_length))
        return Embed(reading, pooling=model.pooling or "mean", same=recipe.data.same)

    def _objective(self, recipe: Recipe, task: Embed, sets: Sets[Similar]) -> Objective:
        """The correlation with scores where there are some, and else how far ahead partners are found."""
        scored = any(each.score is not None for each in sets.valid)
        column = recipe.data.columns.score
        if column is not None and not scored and all(each.score is None for each in sets.test or ()):
            raise RegardError(f"data.columns.score = {column!r} is in neither data.valid nor data.test; check its name")
        if not task.alike(sets.train):
            raise RegardError(
                "data.train has no pairs that mean the same, only pairs with scores; set data.same to the score from "
                "which on they do, or leave data.columns.score out"
            )
        return Objective("spearman" if scored else "mrr", higher=True)

    def _model(self, path: Path, recipe: Recipe, module: nn.Module, task: Embed, report: dict[str, Any]) -> Model:
        return Embedder(path, recipe, module, task, report, read=self.read)


class Embedder(Reader):
    """A text → its vector; a list gives a list."""

    def evaluate(self, data: Any = None) -> dict[str, Score]:
        named = self.recipe.data
        if data is None and not (named.test or named.valid or named.train):
            raise RegardError(f"{self.path} was learned elsewhere and names no pairs to judge it by; give some: --data")
        return super().evaluate(data)

    def read(self, line: str) -> str:
        return line


EMBED = EmbedJob(read_similar, Embed, pooled=True)
