"""The job of the task write: text files, one tokenizer, blocks, and a model that goes on from a prompt."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from regard import models
from regard.data.blocks import Blocks
from regard.data.text import Text, open_texts
from regard.data.tokenizers import Tokenizer
from regard.data.tokens import Tokens, tokenise
from regard.errors import RegardError
from regard.jobs.base import Model, Prepared
from regard.jobs.stored import read_report, read_weights
from regard.jobs.writer import Writer
from regard.recipes import Recipe
from regard.special import OWN
from regard.tasks.write import Write
from regard.training.checkpoint import load_weights
from regard.training.machine import choose_device
from regard.training.run import Objective

TOKENIZER = "tokenizer.json"
LEARNED = 8000  # characters of a text that a vocabulary learns from at a time
BLOCK = 64  # tokens, for a model that looks back on any number of them


class WriteJob:
    """Plain text, cut into blocks without padding."""

    forms: tuple[models.Form, ...] = ("causal",)

    def prepare(self, recipe: Recipe, path: Path, *, begun: bool, console: Console) -> Prepared:
        _check(recipe)
        texts = open_texts(recipe.data)
        tokenizer = Tokenizer.load(path / TOKENIZER) if begun else _learn(path, recipe, texts.train, console)
        named = {"train": texts.train, "valid": texts.valid, **({"test": texts.test} if texts.test else {})}
        tokens = {name: _tokens(name, text, tokenizer, path, console) for name, text in named.items()}
        torch.manual_seed(recipe.training.seed)
        module, task = _module(recipe, tokenizer), _task(recipe, tokenizer)
        cut = {name: _blocks(recipe, tokens[name], name=name) for name in tokens}
        return Prepared(
            module=module,
            task=task,
            batches=cut["train"],
            objective=Objective("loss"),
            validate=Validator(task, cut["valid"], device=choose_device(recipe.training.device)),
            final=FinalScores(task, tokens.get("test", tokens["valid"]), console=console),
            learned_from=tokens["train"].checksum,
            summary=_summary(recipe, tokens, tokenizer, module),
            finish=lambda report: Writer(path, recipe, module, task, report),
        )

    def load(self, recipe: Recipe, path: Path) -> Model:
        tokenizer = Tokenizer.load(path / TOKENIZER, special=getattr(recipe.model, "special", OWN))
        module = _module(recipe, tokenizer)
        load_weights(module, read_weights(path), origin=path)
        return Writer(path, recipe, module.eval(), _task(recipe, tokenizer), read_report(path))


class Validator:
    """What a run is judged by while it learns: the loss by token, on the blocks of the validation text."""

    def __init__(self, task: Write, blocks: Blocks, *, device: torch.device) -> None:
        self.plain = Write(task.tokenizer, block=task.block, reach=task.reach)
        self.blocks, self.device = blocks, device

    def __call__(self, module: nn.Module) -> dict[str, float]:
        total = sum(float(self.plain.loss(module, batch.to(self.device))) for batch in self.blocks.in_order())
        return {"loss": total / len(self.blocks.ids)}


class FinalScores:
    """What a trained model is judged by: perplexity and bits per character of a whole text."""

    def __init__(self, task: Write, tokens: Tokens, *, console: Console) -> None:
        self.task, self.tokens, self.console = task, tokens, console
        self.signatures: dict[str, str] = {}

    def __call__(self, module: nn.Module) -> dict[str, float]:
        with self.console.status(f"reading {len(self.tokens):,} tokens to score the model"):
            scores = self.task.scores(module, self.tokens)
        self.signatures = {name: score.signature for name, score in scores.items()}
        return {name: score.value for name, score in scores.items()}


def _check(recipe: Recipe) -> None:
    """Refuse settings that mean nothing here, before anything is read."""
    if recipe.data.carry and recipe.kind != "rnn":
        raise RegardError(
            f'data.carry={recipe.data.carry} is for kind = "rnn", whose state can be carried, and not for '
            f'"{recipe.kind}"; set it to 0'
        )
    if getattr(recipe.model, "body", None):
        raise RegardError('task = "write" starts from nothing; leave model.body out, or import a model that writes')
    if recipe.tokenizer.kind == "wordpiece":
        raise RegardError('tokenizer.kind = "wordpiece" loses line ends and spaces; to write, try "byte_bpe"')
    for key, set_ in {"tokenizer.dropout": recipe.tokenizer.dropout, "training.r_drop": recipe.training.r_drop}.items():
        if set_:
            raise RegardError(f'{key}={set_:g} is for pairs of text, and not for task = "write"; set it to 0')
    maximum, block = getattr(recipe.model, "maximum", None), block_of(recipe)
    if maximum is not None and getattr(recipe.model, "position", "") == "learned" and block > maximum:
        raise RegardError(f"data.block={block} exceeds the {maximum} learned positions; set model.maximum={block}")


def block_of(recipe: Recipe) -> int:
    """How many tokens are learned in one piece."""
    return int(recipe.data.block or getattr(recipe.model, "maximum", BLOCK))


def _learn(path: Path, recipe: Recipe, text: Text, console: Console) -> Tokenizer:
    settings = recipe.tokenizer
    with console.status("learning a vocabulary"):
        tokenizer = Tokenizer.train(
            text.cuts(LEARNED),
            kind=settings.kind,
            vocabulary=settings.vocabulary,
            split=settings.split,
            lowercase=settings.lowercase,
        )
        tokenizer.save(path / TOKENIZER)
    return tokenizer


def _tokens(name: str, text: Text, tokenizer: Tokenizer, path: Path, console: Console) -> Tokens:
    with console.status(f"reading the {name} text") as status:
        found = tokenise(
            text,
            tokenizer,
            folder=path / "checkpoints" / "text",
            name=name,
            progress=lambda characters: status.update(f"reading the {name} text: {characters:,} characters"),
        )
    if not len(found):
        raise RegardError(f"{text} has not one token; give more text as data.{name}")
    return found


def _blocks(recipe: Recipe, tokens: Tokens, *, name: str) -> Blocks:
    block = block_of(recipe)
    if name != "train":
        block = min(block, len(tokens))
    rows = max(recipe.training.batch_tokens // block, 1)
    return Blocks(tokens.ids, block=block, rows=rows, seed=recipe.training.seed, carry=recipe.data.carry, name=name)


def _module(recipe: Recipe, tokenizer: Tokenizer) -> nn.Module:
    return models.from_config(recipe.model, vocabulary=tokenizer.size)


def _task(recipe: Recipe, tokenizer: Tokenizer) -> Write:
    """A recurrent model looks back on everything; attention on as much as it has learned to."""
    block = block_of(recipe)
    reach = None if recipe.kind == "rnn" else block
    return Write(tokenizer, block=block, reach=reach, smoothing=recipe.training.label_smoothing)


def _summary(recipe: Recipe, tokens: dict[str, Tokens], tokenizer: Tokenizer, module: nn.Module) -> str:
    """What is about to be trained, and on what; said once everything was read and found good."""
    lines = [f"{name}: {found}" for name, found in tokens.items()]
    parameters = sum(parameter.numel() for parameter in module.parameters())
    shape = f"blocks of {block_of(recipe):,} tokens, vocabulary: {tokenizer.size:,} tokens"
    return "\n".join([*lines, shape, f"model: {recipe.kind}, {parameters:,} parameters"])
