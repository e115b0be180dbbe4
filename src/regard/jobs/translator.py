"""A trained model of pairs: it answers texts, scores itself, and shows what it looks at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import recipes
from regard.data.examples import DataConfig, Examples, open_examples, open_splits, references
from regard.decoding.config import DecodingConfig, changed
from regard.errors import RegardError
from regard.jobs.base import Answering, Model, paths
from regard.look.capture import capture
from regard.look.record import Record
from regard.look.statistics import statistics
from regard.recipes import Recipe
from regard.tasks.answers import CHUNK, Answer
from regard.tasks.scores import Score
from regard.tasks.significance import Comparison
from regard.tasks.translate import Translate

Pairs = str | Path | Mapping[str, str] | None  # a file, {"source": file, "target": file}, or what the recipe names


class Translator(Answering):
    """A trained model with its tokenizers: call it with a text, or with a list of them."""

    def __init__(self, path: Path, recipe: Recipe, module: nn.Module, task: Translate, report: dict[str, Any]) -> None:
        super().__init__(path, recipe, module, report)
        self.task = task

    def answers(
        self, texts: Sequence[str], *, decoding: DecodingConfig | None = None, prefix: str | None = None
    ) -> list[list[Answer]]:
        """The `n_best` answers to each text, best first, with their scores."""
        starts = None if prefix is None else [prefix] * len(texts)
        return self.task.answer(self.module, texts, decoding=decoding or self.recipe.decoding, prefix=starts)

    def stream(
        self,
        texts: Iterable[str],
        *,
        decoding: DecodingConfig | None = None,
        prefix: str | None = None,
        together: int = CHUNK,
    ) -> Iterator[tuple[str, list[Answer]]]:
        """Texts and their answers, in order, so many `together`: for any number of lines."""
        remaining = iter(texts)
        while chunk := list(islice(remaining, together)):
            yield from zip(chunk, self.answers(chunk, decoding=decoding, prefix=prefix), strict=True)

    def decoding(self, changes: Mapping[str, Any]) -> DecodingConfig:
        """The recipe's [decoding] with some keys changed; a beam wide enough for `n_best` unless one is given."""
        return recipes.check(DecodingConfig, changed(self.recipe.decoding.model_dump(), changes), where="decoding")

    def evaluate(
        self, data: Pairs = None, *, decoding: DecodingConfig | None = None, tokenize: str = "13a"
    ) -> dict[str, Score]:
        """The task's scores on pairs: a file, {"source": …, "target": …}, or the recipe's own (see `judged_on`)."""
        answers, right = self._answer_all(self.references(data), decoding)
        return self.task.scores(answers, right, tokenize=tokenize)

    def compare(
        self, other: Translator, data: Pairs = None, *, decoding: DecodingConfig | None = None, tokenize: str = "13a"
    ) -> Comparison:
        """This model and another on the same pairs: scores of both, and how likely their difference is chance."""
        sources = self.references(data)
        first, right = self._answer_all(sources, decoding)
        second, _ = other._answer_all(sources, decoding)
        return self.task.compare(first, second, right, tokenize=tokenize)

    def references(self, data: Pairs = None) -> dict[str, list[str]]:
        """Each source once, with every target that counts as right."""
        config = self.recipe.data
        if data is not None:
            named = str(data) if isinstance(data, Path) else data
            examples = open_examples(recipes.check(DataConfig, {"test": named}, where="data").test, key="data")
            examples = replace(examples, columns=config.columns)
        elif config.test:
            examples = open_examples(config.test, key="data.test", columns=config.columns)
        else:
            examples = open_splits(config, seed=self.recipe.training.seed).valid
        return wanted(examples)

    def alignment(self, text: str, answer: Answer) -> tuple[list[str], list[str], torch.Tensor]:
        """Pieces of the source and its end, pieces of the answer, and how much these looked at those: (T, S + 1)."""
        tokenizers = self.task.tokenizers
        weights = self.task.alignment(self.module, text, answer.tokens)
        end = tokenizers.source.pieces([tokenizers.special.eos])
        return [*tokenizers.source.tokens(text), *end], tokenizers.target.pieces(list(answer.tokens)), weights

    def look(
        self,
        text: str,
        *,
        reference: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        beam: bool = True,
        decoding: DecodingConfig | None = None,
    ) -> Record:
        """As for every model; with `beam`, the record has the tree of the search."""
        return self.named(
            capture(
                self.module,
                self.task,
                text,
                decoding=decoding or self.recipe.decoding,
                reference=reference,
                only=paths(layer),
                head=head,
                beam=beam,
            )
        )

    def habits(self, texts: Iterable[str]) -> dict[str, Any]:
        decoding = self.decoding({"beam": 1})
        return statistics(capture(self.module, self.task, text, decoding=decoding, gradients=False) for text in texts)

    def word_alignment(self, text: str, answer: Answer) -> list[tuple[int, int]]:
        """For each word of the answer, the source word it looked at most: (source, target) by number, from 0."""
        return self.task.word_alignment(self.module, text, answer)

    def said(self, text: str, reference: str | None = None) -> Answer:
        """The best answer to `text`; or `reference`, as if it had been the answer."""
        if reference is None:
            return self.answers([text])[0][0]
        return Answer(reference, 0.0, tuple(self.task.tokenizers.target.encode([reference])[0]), ())

    def pieces(self, answer: Answer) -> list[str]:
        """The tokens of an answer, for display."""
        return self.task.tokenizers.target.pieces(list(answer.tokens))

    def _answer_all(
        self, sources: Mapping[str, list[str]], decoding: DecodingConfig | None
    ) -> tuple[list[str], list[list[str]]]:
        found = self.answers(list(sources), decoding=decoding)
        return [each[0].text for each in found], list(sources.values())


def as_translator(model: Model) -> Translator:
    """The model as one of pairs, if it is one."""
    if not isinstance(model, Translator):
        raise RegardError(f'{model.path} is a model for task = "{model.recipe.task}"; this is for models of pairs')
    return model


def wanted(examples: Examples) -> dict[str, list[str]]:
    """Each source once, with every target that counts as right; a line with nothing on it is no pair."""
    found = references(pair for pair in examples if pair.source.strip() or pair.target.strip())
    if not found:
        raise RegardError(
            f"{', '.join(map(str, examples.entries))} has no pairs to score a model on; name another file"
        )
    return found
