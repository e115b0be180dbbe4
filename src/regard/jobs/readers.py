"""The jobs of tasks that read texts and answer with something else: classify, tag, answer, fill."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from rich.console import Console
from torch import nn

from regard import models
from regard.data.documents import read_documents
from regard.data.labelled import Sets, read_labelled, read_sets
from regard.data.questions import read_questions
from regard.data.tagged import read_tagged
from regard.data.text_batches import TextBatches, in_order_of_length
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.errors import RegardError
from regard.jobs.base import Model, Prepared
from regard.jobs.bodies import framing_of, open_body, take_weights
from regard.jobs.reader import Reader
from regard.jobs.stored import LABELS, read_labels, read_report, read_weights
from regard.layers.low_rank import add_low_rank
from regard.models.bert import BertConfig
from regard.models.elmo import Elmo
from regard.models.heads import headed
from regard.recipes import Recipe
from regard.tasks.classify import Classify
from regard.tasks.fill import MASK, Fill
from regard.tasks.find_answer import FindAnswer
from regard.tasks.reading import Reading
from regard.tasks.tag import Tag
from regard.tasks.two_way import TwoWay
from regard.training import durable
from regard.training.checkpoint import load_weights
from regard.training.config import TrainingConfig
from regard.training.depth import freeze
from regard.training.machine import choose_device
from regard.training.run import Objective


@dataclass(frozen=True)
class ReaderJob:
    """How one task reads its files, what it is, and whether it has one answer to a text or one to each token."""

    read: Callable[[str, Any], Iterator[Any]]
    task: Any  # its class
    pooled: bool

    @property
    def forms(self) -> tuple[models.Form, ...]:
        """One answer to a text may come from its end; one to each token needs what stands on both sides of it."""
        return ("encoder", "causal") if self.pooled else ("encoder",)

    def prepare(self, recipe: Recipe, path: Path, *, begun: bool, console: Console) -> Prepared:
        training = recipe.training
        with console.status("reading the examples"):
            sets = read_sets(recipe.data, lambda name: self.read(name, recipe.data), seed=training.seed)
            labels = self.task.labels_of(sets.train)
            tokenizer = _tokenizer(recipe, path, self.task.texts(sets.train), begun=begun)
            task = self._task(recipe, tokenizer, labels)
            objective = self._objective(recipe, task, sets)
            learned, validated, draw = task.encode(sets.train), task.encode(sets.valid), getattr(task, "draw", None)
            if draw is not None:
                validated = [draw(row, numpy.random.default_rng([0, at])) for at, row in enumerate(validated)]
        durable.write_file(path / LABELS, json.dumps(labels, ensure_ascii=False).encode())
        torch.manual_seed(training.seed)
        module = self._module(recipe, tokenizer, labels, begin=True)
        special, device = task.reading.framing.special, choose_device(training.device)
        settings = {"batch_tokens": training.batch_tokens, "seed": training.seed}
        batches = TextBatches(learned, **settings, special=special, draw=draw)
        parameters = sum(parameter.numel() for parameter in module.parameters())
        learning = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
        return Prepared(
            module=module,
            task=task,
            batches=batches,
            objective=objective,
            validate=Validator(task, validated, sets.valid, batch_tokens=training.batch_tokens, device=device),
            final=FinalScores(task, sets.test or sets.valid, console=console),
            learned_from=batches.checksum,
            summary=f"train: {len(sets.train):,} examples, valid: {len(sets.valid):,}, labels: {len(labels)}\n"
            f"model: {recipe.kind}, {parameters:,} parameters, of which {learning:,} learn",
            finish=lambda report: self._model(path, recipe, module, task, report),
        )

    def load(self, recipe: Recipe, path: Path) -> Model:
        model: Any = recipe.model
        tokenizer = Tokenizers.load(path, special=model.special).source
        labels = self._labels(path)
        module = self._module(recipe, tokenizer, labels, begin=False)
        load_weights(module, read_weights(path), origin=path)
        task = self._task(recipe, tokenizer, labels)
        return self._model(path, recipe, module.eval(), task, read_report(path))

    def _model(self, path: Path, recipe: Recipe, module: nn.Module, task: Any, report: dict[str, Any]) -> Model:
        return Reader(path, recipe, module, task, report, read=self.read)

    def _objective(self, recipe: Recipe, task: Any, sets: Sets[Any]) -> Objective:  # noqa: ARG002 - the task's own
        return Objective(task.best, higher=task.best != "loss")

    def _labels(self, path: Path) -> list[str]:
        return read_labels(path)

    def _task(self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str]) -> Any:
        reading = Reading(tokenizer, framing_of(recipe.model, max_length=recipe.data.max_length))
        return self.task(reading, labels, smoothing=recipe.training.label_smoothing, **_options(recipe))

    def _module(self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], *, begin: bool) -> nn.Module:
        model: Any = recipe.model
        module = headed(model, classes=len(labels), pooled=self.pooled, vocabulary=tokenizer.size)
        if begin and model.body:
            take_weights(module.encoder, model.body)
        return _tuned(module, recipe.training)


class BodyJob(ReaderJob):
    """The body itself learns, and nothing stands on it."""

    def _labels(self, path: Path) -> list[str]:  # noqa: ARG002 - there are none
        return []

    def _module(self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], *, begin: bool) -> nn.Module:  # noqa: ARG002
        model: Any = recipe.model
        module = models.from_config(model, vocabulary=tokenizer.size)
        if begin and model.body:
            take_weights(module, model.body)
        return _tuned(module, recipe.training)


class FillJob(BodyJob):
    """With its own heads, which say words."""

    def _task(self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str]) -> Any:  # noqa: ARG002
        model, data = recipe.model, recipe.data
        reading = Reading(tokenizer, framing_of(model, max_length=getattr(data, "max_length", None)))
        if not isinstance(model, BertConfig):
            return TwoWay(reading)
        if not model.masked_words:
            raise RegardError('task = "fill" needs the head that fills in words; set model.masked_words=true')
        return Fill(
            reading,
            pairs=model.next_sentence,
            share=data.mask,
            whole_words=data.whole_words,
            seed=recipe.training.seed,
        )

    def _module(self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], *, begin: bool) -> nn.Module:
        module = super()._module(recipe, tokenizer, labels, begin=begin)
        if isinstance(module, Elmo):
            module.mix.requires_grad_(False)  # it is learned with what the features are for
        return module


class Validator:
    """What a run is judged by while it learns: the loss on the validation examples, and the task's scores."""

    MOST = 2000  # examples answered: enough to rank checkpoints by

    def __init__(
        self, task: Any, framed: Sequence[Any], examples: list[Any], *, batch_tokens: int, device: torch.device
    ) -> None:
        self.task = task
        special = task.reading.framing.special
        batches = in_order_of_length(framed, batch_tokens=batch_tokens, special=special)
        self.batches = [batch.to(device) for batch in batches]
        few = len(examples) <= self.MOST
        self.examples = examples if few else random.Random(0).sample(examples, self.MOST)

    def __call__(self, module: nn.Module) -> dict[str, float]:
        targets = sum(batch.targets for batch in self.batches)
        loss = sum(float(self.task.loss(module, batch)) for batch in self.batches)
        scores = {name: score.value for name, score in self.task.scores(module, self.examples).items()}
        return ({"loss": loss / targets} if targets else {}) | scores


class FinalScores:
    """What a trained model is judged by; `signatures` say how each score came about."""

    def __init__(self, task: Any, examples: list[Any], *, console: Console) -> None:
        self.task, self.examples, self.console = task, examples, console
        self.signatures: dict[str, str] = {}

    def __call__(self, module: nn.Module) -> dict[str, float]:
        with self.console.status(f"answering {len(self.examples):,} texts to score the model"):
            scores = self.task.scores(module, self.examples)
        self.signatures = {name: score.signature for name, score in scores.items()}
        return {name: score.value for name, score in scores.items()}


def _tuned(module: nn.Module, training: TrainingConfig) -> nn.Module:
    """The module with what [training] says may learn."""
    if training.lora and not add_low_rank(module, rank=training.lora):
        raise RegardError(
            f"training.lora={training.lora} changes queries and values, and this model has none; set it to 0"
        )
    freeze(module, training.freeze, lora=bool(training.lora))
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise RegardError(f"training.freeze={training.freeze!r} leaves nothing to learn, as there is no head; lower it")
    return module


def _tokenizer(recipe: Recipe, path: Path, texts: Iterator[str], *, begun: bool) -> Tokenizer:
    """The body's; without a body, one learned from the texts."""
    model: Any = recipe.model
    if begun:
        return Tokenizers.load(path, special=model.special).source
    if model.body:
        body = open_body(model.body)
        if body.tokenizers is None:
            raise RegardError(f"model.body = {model.body!r} has no tokenizer; add tokenizer.json or vocab.txt to it")
        tokenizers = body.tokenizers
    else:
        settings = recipe.tokenizer
        kinds = {"kind": settings.kind, "vocabulary": settings.vocabulary, "split": settings.split}
        tokenizers = Tokenizers(Tokenizer.train(texts, **kinds, lowercase=settings.lowercase))  # type: ignore[arg-type]
        if recipe.task == "fill" and recipe.kind == "bert":
            tokenizers.source.inner.add_special_tokens([MASK])
    tokenizers.save(path)
    return tokenizers.source


def _options(recipe: Recipe) -> dict[str, Any]:
    """What a task takes from [data] beside texts."""
    return {
        key: getattr(recipe.data, key) for key in ("stride", "max_answer", "impossible") if hasattr(recipe.data, key)
    }


CLASSIFY = ReaderJob(read_labelled, Classify, pooled=True)
TAG = ReaderJob(read_tagged, Tag, pooled=False)
FILL = FillJob(read_documents, Fill, pooled=False)
ANSWER = ReaderJob(read_questions, FindAnswer, pooled=False)
