"""Language models: regard's GPT beside Hugging Face's GPT-2 of the same size, with the same weights.

    python -m bench train-gpt --data input.txt          learning, tokens a second
    python -m bench generate --data input.txt           writing, tokens a second, one text and 16 at a time

In two settings, by characters of a text (tiny-shakespeare, or any): 6 layers of width 384 with a context of 256, and
nanoGPT's small one for a CPU, 4 layers of width 128 with a context of 64. All learn from the same blocks with fused
Adam and gradients clipped at 1; dropout stands on the embeddings and around the sublayers, and not in attention.
All write with their caches, as many tokens as the context has left after a prompt; regard in torch, and if nothing is
drawn also through CTranslate2, as `regard run` does. The first weights of `generate` are larger than those to learn
from, so that texts wander instead of repeating one character.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench import cost, material, options
from bench.alternate import ready
from bench.comparison import Answers, chosen, conclude, limits, rows
from bench.cost import Size
from bench.results import Table
from bench.training_speed import differences, peer, tuned
from bench.worker import System, scratch
from regard import models, recipes
from regard.data.pairs.batches import PairBatch
from regard.data.text.blocks import BlockStream
from regard.data.text.text import open_text
from regard.data.text.tokens import Tokens, tokenise
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.directory import RECIPE, WEIGHTS, ModelDirectory
from regard.special import EOS
from regard.tasks.base import Codec
from regard.training.checkpoint import to_bytes, weights_of

LEARNING = {"learning_rate": 0.001, "warmup": 100, "smoothing": 0.0, "clip": 1.0}
FIRST_STEPS = 20
PROMPT, LONGEST, TEMPERATURE = 16, 128, 0.8
TRAINING = [
    System("regard", "regard_gpt_train", {"precision": "auto"}),
    System("regard, float32", "regard_gpt_train", {"precision": "float32"}),
]
GPT2 = ("transformers GPT-2", "transformers_gpt_train")
THROUGH = System("regard, through CTranslate2", "regard_gpt_engine")  # which draws other random numbers
WRITING = [
    System("regard", "regard_gpt_generate"),
    THROUGH,
    *peer("transformers generate", "transformers_gpt_generate"),
]


@dataclass(frozen=True)
class Setting:
    """A GPT and how much of a text it learns from at a time."""

    size: Size
    context: int
    blocks: int
    dropout: float
    steps: int  # of one repeat

    @property
    def title(self) -> str:
        return f"{self.size.layers} layers, width {self.size.width}, context {self.context}"

    def settings(self) -> dict[str, Any]:
        return {**self.size.settings(), "context": self.context, "dropout": self.dropout}

    def build(self) -> nn.Module:
        """The model with its first weights, the same each time."""
        torch.manual_seed(0)
        settings = self.size.settings()
        return models.build("gpt", vocabulary=settings.pop("vocabulary"), maximum=self.context, **settings)


def settings_for(vocabulary: int) -> list[Setting]:
    """nanoGPT's for characters: on a GPU, with fewer blocks a step, and on a CPU."""
    mini = Size(layers=6, width=384, heads=6, hidden=1536, vocabulary=vocabulary)
    small = Size(layers=4, width=128, heads=4, hidden=512, vocabulary=vocabulary)
    return [
        Setting(mini, context=256, blocks=16, dropout=0.2, steps=2),
        Setting(small, context=64, blocks=12, dropout=0.0, steps=20),
    ]


def training(arguments: list[str]) -> None:
    given = options.read(_parser("train-gpt"), arguments)
    systems = chosen([*TRAINING, *peer(*GPT2), *tuned(*GPT2)], given)
    results = []
    with scratch() as folder:
        tokenizer, ids = characters(given.data, Path(folder))
        for setting in settings_for(tokenizer.size):
            steps = 1 if given.quick else setting.steps
            first = 2 if given.quick else FIRST_STEPS
            made = write_blocks(Path(folder), setting, ids, count=max(steps, first))
            weights = material.write_weights(Path(folder) / "weights.npz", setting.build())
            paths = {"batches": str(made), "weights": str(weights)}
            with ready(systems, {**setting.settings(), **LEARNING, **paths}, threads=given.threads) as field:
                field.repeat(1, steps=1)  # a first step builds what later ones use again
                answers = field.repeat(given.repeats, steps=steps)
            table = Table(
                f"learning, {setting.title}, {setting.blocks} blocks a step",
                "tokens/s",
                rows(systems, answers, lambda answer: answer["targets"] / answer["seconds"]),
                flops=cost.writing(setting.size, setting.context) / setting.context,
                notes=_first_losses({**setting.settings(), **LEARNING, **paths}, first, given.threads),
            )
            results.append((table, answers, field))
    _conclude("train-gpt", "Tokens a second while learning: forward, backward and update.", given, results)


def generating(arguments: list[str]) -> None:
    given = options.read(_parser("generate"), arguments)
    systems = chosen(WRITING, given)
    results = []
    with scratch() as folder:
        tokenizer, ids = characters(given.data, Path(folder))
        for setting in settings_for(tokenizer.size):
            model = lively(setting.build())
            paths = {
                "weights": str(material.write_weights(Path(folder) / "weights.npz", model)),
                "directory": str(write_model(Path(folder) / f"{setting.size.width}", setting, model, tokenizer)),
            }
            length = 4 if given.quick else min(setting.context - PROMPT, LONGEST)
            with ready(systems, {**setting.settings(), **paths}, threads=given.threads) as field:
                for together in (1, 16):
                    prompts = write_prompts(Path(folder), ids, count=max(together, 4))
                    asked = {"sources": str(prompts), "together": together, "length": length}
                    for how, sample in (("greedy", False), ("sampling", True)):
                        question = {**asked, "sample": sample, "temperature": TEMPERATURE}
                        without = [THROUGH] if sample else []
                        field.repeat(1, without=without, **question)
                        answers = field.repeat(given.repeats, without=without, **question)
                        title = f"{how}, {together} at a time, {setting.title}"
                        results.append((_written(title, systems, answers, sample=sample), answers, field))
    about = f"Tokens a second, ids in and ids out, after prompts of {PROMPT} characters."
    _conclude("generate", about, given, results)


def characters(data: Path, folder: Path) -> tuple[Tokenizer, Any]:
    """The tokenizer of a text, whose tokens are its characters, and the text as ids."""
    text = open_text([str(data)], key="data")
    tokenizer = Tokenizer.train(text.cuts(8000), kind="characters", vocabulary=1000)
    return tokenizer, tokenise(text, tokenizer, folder=folder, name="text").ids


def write_blocks(folder: Path, setting: Setting, ids: Any, *, count: int) -> Path:
    """The first batches of blocks, as a target (B, T + 1) that follows from nothing."""
    tokens = Tokens(ids, characters=len(ids), unknown=0, checksum="")
    stream = BlockStream(tokens, block=setting.context, rows=setting.blocks, seed=1).epoch(0)
    whole = (torch.cat([batch.tokens, batch.wanted[:, -1:]], 1) for batch in stream if batch.counted.all())
    batches = [
        PairBatch(target[:, :0], torch.zeros(len(target), dtype=torch.int64), target, torch.empty(0), 0, ())
        for target in islice(whole, count)
    ]
    return material.write_batches(folder / "batches.npz", batches)


def write_model(folder: Path, setting: Setting, model: nn.Module, tokenizer: Tokenizer) -> Path:
    """A model directory with these weights, as training writes one."""
    sizes = {name: value for name, value in setting.size.settings().items() if name != "vocabulary"}
    recipe = recipes.make(
        {"task": "write", "model": {"kind": "gpt", "maximum": setting.context, **sizes}}, where="bench"
    )
    folder.mkdir()
    ModelDirectory(folder).write(Codec(Tokenizers(tokenizer)))
    (folder / RECIPE).write_text(recipe.to_toml(), encoding="utf-8")
    (folder / WEIGHTS).write_bytes(to_bytes(weights_of(model)))
    return folder


def write_prompts(folder: Path, ids: Any, *, count: int) -> Path:
    path = folder / "prompts.json"
    prompts = [[int(token) for token in ids[start : start + PROMPT]] for start in range(0, count * PROMPT, PROMPT)]
    path.write_text(json.dumps(prompts), encoding="utf-8")
    return path


@torch.no_grad()
def lively(model: nn.Module) -> nn.Module:
    """Weights so large that the next character depends on those before.

    What regard never says, and the end, are as unlikely for everyone: one feature of all tokens is 10, theirs is −10.
    """
    for parameter in model.get_submodule("body").parameters():
        if parameter.dim() > 1:
            parameter *= 20
    table, weight, bias = (
        model.get_parameter(name) for name in ("output.weight", "body.final.weight", "body.final.bias")
    )
    weight[0], bias[0], table[:, 0] = 0.0, 10.0, 0.0
    table[: EOS + 1, 0] = -10.0
    return model


def _parser(work: str) -> argparse.ArgumentParser:
    return options.parser(work, __doc__, data="a text, plain or .gz, for example tiny-shakespeare's input.txt")


def _written(title: str, systems: list[System], answers: Answers, *, sample: bool) -> Table:
    said = {name: found[0]["answers"] for name, found in answers.items() if "answers" in found[0]}
    ours = said.pop("regard")
    notes = [
        f"{name}: {sum(mine == theirs for mine, theirs in zip(ours, texts, strict=True))} of {len(ours)} texts are the "
        "same as regard's"
        for name, texts in said.items()
    ]
    tokens = sum(map(len, ours))
    found = rows(systems, answers, lambda answer: tokens / answer["seconds"])
    return Table(title, "tokens/s", found, notes=[] if sample else notes)


def _first_losses(settings: Mapping[str, Any], steps: int, threads: int) -> list[str]:
    """How far the losses of the first steps are from GPT-2's, dropout off, the same first weights."""
    reference = System("GPT-2 in float32", "transformers_gpt_train", {"precision": "float32"})
    return differences([*TRAINING, reference], {**settings, "dropout": 0.0}, steps=steps, threads=threads)


def _conclude(work: str, about: str, given: argparse.Namespace, results: list[tuple[Table, Answers, Any]]) -> None:
    tables, answers, fields = zip(*results, strict=True)
    conclude(
        work,
        about,
        given,
        tables,
        limits=limits(*answers),
        versions=fields[0].versions,
        notes=list(dict.fromkeys(note for field in fields for note in field.notes)),
    )
