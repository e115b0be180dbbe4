"""One text in, one text out: the jobs of the tasks translate and transcribe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from regard import models
from regard.data import shortlist
from regard.data.batches import Batches, evaluation_batches
from regard.data.corpus import Corpus, prepare
from regard.data.dropout import Dropout
from regard.data.examples import Examples, Splits, open_splits
from regard.data.tokenizers import Tokenizers
from regard.decoding.config import DecodingConfig
from regard.jobs.base import Model, Prepared
from regard.jobs.stored import read_report, read_weights
from regard.jobs.translator import Translator, wanted
from regard.recipes import Recipe
from regard.special import OWN
from regard.tasks.translate import Translate
from regard.teacher import distil
from regard.training import durable
from regard.training.checkpoint import load_weights
from regard.training.machine import choose_device
from regard.training.run import Objective


class PairsJob:
    """Texts and what they become: files of pairs, tokenizers for both sides, batches by length."""

    forms: tuple[models.Form, ...] = ("pairs",)

    def prepare(self, recipe: Recipe, path: Path, *, begun: bool, console: Console) -> Prepared:
        splits = _splits(recipe, path, console)
        tokenizers = Tokenizers.load(path) if begun else _learn_tokenizers(path, recipe, splits.train, console)
        corpora = {
            name: _corpus(name, examples, tokenizers, path, recipe, console)
            for name, examples in (("train", splits.train), ("valid", splits.valid))
        }
        torch.manual_seed(recipe.training.seed)
        module, task = _module(recipe, tokenizers), _task(recipe, tokenizers)
        batch_tokens, device = recipe.training.batch_tokens, choose_device(recipe.training.device)

        def finish(report: dict[str, Any]) -> Model:
            if recipe.decoding.shortlist:
                sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
                found = shortlist.learn(corpora["train"], **sizes)
                durable.write_file(path / shortlist.NAME, found.to_bytes())
            return Translator(path, recipe, module, task, report)

        return Prepared(
            module=module,
            task=task,
            batches=Batches(
                corpora["train"],
                batch_tokens=batch_tokens,
                seed=recipe.training.seed,
                dropout=_dropout(recipe, tokenizers),
            ),
            objective=Objective("word_error") if task.lexicon else Objective("bleu", higher=True),
            validate=Validator(task, splits.valid, corpora["valid"], batch_tokens=batch_tokens, device=device),
            final=FinalScores(task, splits.test or splits.valid, decoding=recipe.decoding, console=console),
            learned_from=corpora["train"].checksum,
            summary=_summary(recipe, corpora, tokenizers, module),
            finish=finish,
        )

    def load(self, recipe: Recipe, path: Path) -> Model:
        tokenizers = Tokenizers.load(path, special=getattr(recipe.model, "special", OWN))
        module = _module(recipe, tokenizers)
        load_weights(module, read_weights(path), origin=path)
        return Translator(path, recipe, module.eval(), _task(recipe, tokenizers), read_report(path))


class Validator:
    """What a run is judged by while it learns: loss on the validation pairs, and the score of greedy answers."""

    MOST = 1000  # sources answered: enough to rank checkpoints by

    def __init__(
        self, task: Translate, examples: Examples, corpus: Corpus, *, batch_tokens: int, device: torch.device
    ) -> None:
        self.task = task
        self.plain = Translate(task.tokenizers)
        self.batches = [batch.to(device) for batch in evaluation_batches(corpus, batch_tokens=batch_tokens)]
        self.wanted = dict(islice(wanted(examples).items(), self.MOST))
        longest = int(corpus.target.lengths.max()) + 1
        self.decoding = DecodingConfig(beam=1, max_length=longest + longest // 2)

    def __call__(self, module: nn.Module) -> dict[str, float]:
        targets = sum(batch.targets for batch in self.batches)
        loss = sum(float(self.plain.loss(module, batch)) for batch in self.batches) / targets
        found = self.task.answer(module, list(self.wanted), decoding=self.decoding)
        score = self.task.validation_score([each[0].text for each in found], list(self.wanted.values()))
        return {"loss": loss, **score}


class FinalScores:
    """What a trained model is judged by; `signatures` say how each score came about.

    The pairs are read beforehand, so that what is wrong with them is known before training and not after.
    """

    def __init__(self, task: Translate, examples: Examples, *, decoding: DecodingConfig, console: Console) -> None:
        self.task, self.decoding, self.console = task, decoding, console
        self.wanted = wanted(examples)
        self.signatures: dict[str, str] = {}

    def __call__(self, module: nn.Module) -> dict[str, float]:
        with self.console.status(f"answering {len(self.wanted):,} texts to score the model"):
            found = self.task.answer(module, list(self.wanted), decoding=self.decoding)
            scores = self.task.scores([each[0].text for each in found], list(self.wanted.values()))
        self.signatures = {name: score.signature for name, score in scores.items()}
        return {name: score.value for name, score in scores.items()}


def _splits(recipe: Recipe, path: Path, console: Console) -> Splits:
    """The examples to learn from, to validate on and to test on; with a teacher, its answers are learned."""
    splits = open_splits(recipe.data, seed=recipe.training.seed)
    if not recipe.data.teacher:
        return splits
    folder = path / "checkpoints" / "teacher"
    taught = distil(splits.train, teacher=Path(recipe.data.teacher), folder=folder, console=console)
    return replace(splits, train=taught)


def _learn_tokenizers(path: Path, recipe: Recipe, examples: Examples, console: Console) -> Tokenizers:
    for name in ("tokenizer.json", "source.json", "target.json"):
        (path / name).unlink(missing_ok=True)  # of an attempt that learned nothing else, perhaps by another recipe
    with console.status("learning a vocabulary"):
        tokenizers = Tokenizers.train(examples, recipe.tokenizer)
        tokenizers.save(path)
    return tokenizers


def _summary(recipe: Recipe, corpora: Mapping[str, Corpus], tokenizers: Tokenizers, module: nn.Module) -> str:
    """What is about to be trained, and on what; said once everything was read and found good."""
    lines = []
    for name, corpus in corpora.items():
        sides = f"  source: {corpus.source.statistics()}", f"  target: {corpus.target.statistics()}"
        lines += [f"{name}: {corpus.report}", *sides]
    sizes = {tokenizers.source: tokenizers.source.size, tokenizers.target: tokenizers.target.size}.values()
    parameters = sum(parameter.numel() for parameter in module.parameters())
    vocabulary = " and ".join(f"{size:,}" for size in sizes)
    return "\n".join([*lines, f"vocabulary: {vocabulary} tokens", f"model: {recipe.kind}, {parameters:,} parameters"])


def _corpus(
    name: str, examples: Examples, tokenizers: Tokenizers, path: Path, recipe: Recipe, console: Console
) -> Corpus:
    with console.status(f"reading the {name} pairs") as status:
        return prepare(
            examples,
            tokenizers,
            folder=path / "checkpoints" / "corpus",
            name=name,
            filters=recipe.data.filters,
            progress=lambda pairs: status.update(f"reading the {name} pairs: {pairs:,}"),
        )


def _dropout(recipe: Recipe, tokenizers: Tokenizers) -> Dropout | None:
    rate = recipe.tokenizer.dropout
    return Dropout(tokenizers, rate=rate, seed=recipe.training.seed, longest=recipe.data.max_length) if rate else None


def _module(recipe: Recipe, tokenizers: Tokenizers) -> nn.Module:
    target = None if tokenizers.shared else tokenizers.target.size
    return models.from_config(recipe.model, vocabulary=tokenizers.source.size, target_vocabulary=target)


def _task(recipe: Recipe, tokenizers: Tokenizers) -> Translate:
    training = recipe.training
    lexicon = recipe.task == "transcribe"
    return Translate(tokenizers, lexicon=lexicon, smoothing=training.label_smoothing, r_drop=training.r_drop)
