"""The verbs, in Python: `train` and `load` give a `Model`, which answers, scores itself and shows what it looks at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, overload

import safetensors.torch
import torch
from rich.console import Console
from torch import nn

from regard import models, recipes
from regard.data.batches import Batches
from regard.data.corpus import Corpus
from regard.data.examples import open_examples, open_splits, references
from regard.data.tokenizers import Tokenizers
from regard.decoding import DecodingConfig
from regard.errors import RegardError
from regard.recipes import Recipe
from regard.tasks import scores as scoring
from regard.tasks.scores import Score
from regard.tasks.translate import Answer, Translate
from regard.training import machine
from regard.training.run import Objective
from regard.training.train import train as train_in

CHUNK = 1024  # lines answered together: enough to batch by length, few enough to begin printing soon


def train(
    recipe: str | Path | Recipe, *, out: str | Path | None = None, changes: Iterable[str] = (), show: bool = False
) -> Model:
    """Train what a recipe says, in the directory `out` (runs/NAME unless given); one that exists is gone on with."""
    chosen = recipe if isinstance(recipe, Recipe) else recipes.load(recipe, changes)
    name = "model" if isinstance(recipe, Recipe) else Path(recipe).stem
    path = Path(out) if out is not None else Path("runs") / name
    chosen = _settle(path, chosen)
    console = Console(stderr=True, quiet=not show)
    splits = open_splits(chosen.data, seed=chosen.training.seed)
    tokenizers = _tokenizers(path, chosen, splits.train, console)
    corpora = {}
    for part, examples in (("train", splits.train), ("valid", splits.valid)):
        with console.status(f"reading the {part} pairs"):
            corpora[part] = Corpus.build(examples, tokenizers, path / "corpus", filters=chosen.data.filters, keep_text=bool(chosen.tokenizer.dropout))
        console.print(f"{part}: {corpora[part].report}", highlight=False)
    torch.manual_seed(chosen.training.seed)
    module = _module(chosen, tokenizers)
    task = _task(chosen, tokenizers)
    judged = Model(path, chosen, module, task, {})
    report = train_in(
        module,
        task,
        Batches(corpora["train"], batch_tokens=chosen.training.batch_tokens, seed=chosen.training.seed),
        config=chosen.training,
        directory=path,
        names={"task": chosen.task, "kind": chosen.model.kind},  # type: ignore[attr-defined]
        width=getattr(chosen.model, "width", None),
        objective=Objective("word_error") if task.lexicon else Objective("bleu", higher=True),
        validate=Validator(judged, splits.valid, corpora["valid"]),
        score=judged.final_scores,
        console=console,
    )
    return Model(path, chosen, module, task, report)


def load(path: str | Path) -> Model:
    """A trained model from its directory. Nothing in it is executed."""
    path = Path(path)
    if not (path / "weights.safetensors").is_file():
        raise RegardError(f"{path} is not a model directory: it has no weights.safetensors; train one with: regard train")
    recipe = recipes.load(path / "recipe.toml")
    tokenizers = Tokenizers.load(path)
    module = _module(recipe, tokenizers)
    load_weights(module, path / "weights.safetensors")
    report = json.loads((path / "report.json").read_text("utf-8")) if (path / "report.json").is_file() else {}
    return Model(path, recipe, module.eval(), _task(recipe, tokenizers), report)


class Model:
    """A trained model with its tokenizers: call it with a text, or with a list of them."""

    def __init__(self, path: Path, recipe: Recipe, module: nn.Module, task: Translate, report: dict[str, Any]) -> None:
        self.path = path
        self.recipe = recipe
        self.module = module
        self.task = task
        self.report = report

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: list[str]) -> list[str]: ...
    def __call__(self, text: str | list[str]) -> str | list[str]:
        """One answer; a list gives a list."""
        if isinstance(text, str):
            return self.answers([text])[0][0].text
        return [found[0].text for found in self.answers(text)]

    def answers(
        self, texts: Sequence[str], *, decoding: DecodingConfig | None = None, prefix: str | None = None
    ) -> list[list[Answer]]:
        """The `n_best` answers to each text, best first, with their scores."""
        starts = None if prefix is None else [prefix] * len(texts)
        return self.task.answer(self.module, texts, decoding=decoding or self.recipe.decoding, prefix=starts)

    def stream(
        self, texts: Iterable[str], *, decoding: DecodingConfig | None = None, prefix: str | None = None
    ) -> Iterator[tuple[str, list[Answer]]]:
        """Texts and their answers, in order, a chunk at a time: for any number of lines."""
        remaining = iter(texts)
        while chunk := list(islice(remaining, CHUNK)):
            yield from zip(chunk, self.answers(chunk, decoding=decoding, prefix=prefix), strict=True)

    def decoding(self, changes: Mapping[str, Any]) -> DecodingConfig:
        """The recipe's [decoding] with some keys changed; a beam wide enough for `n_best` unless one is given."""
        settings = {**self.recipe.decoding.model_dump(), **changes}
        if "n_best" in changes and "beam" not in changes:
            settings["beam"] = max(settings["beam"], settings["n_best"])
        return recipes.check(DecodingConfig, settings, where="decoding")

    def evaluate(self, data: Any = None, *, decoding: DecodingConfig | None = None, tokenize: str = "13a") -> dict[str, Score]:
        """The task's scores on pairs: a file, {source=…, target=…}, or the recipe's own test set (valid without one)."""
        answers, right = self._answer_all(self.references(data), decoding)
        return self.task.scores(answers, right, tokenize=tokenize)

    def compare(
        self, other: Model, data: Any = None, *, decoding: DecodingConfig | None = None, tokenize: str = "13a"
    ) -> dict[str, dict[str, float]]:
        """This model and another on the same pairs: scores of both, and how likely their difference is chance."""
        wanted = self.references(data)
        first, right = self._answer_all(wanted, decoding)
        second, _ = other._answer_all(wanted, decoding)
        return scoring.compare(first, second, right, tokenize=tokenize)

    def references(self, data: Any = None) -> dict[str, list[str]]:
        """Each source once, with every target that counts as right."""
        config = self.recipe.data
        if data is not None:
            return references(open_examples(data, key="data", columns=config.columns))
        if config.test:
            return references(open_examples(config.test, key="data.test", columns=config.columns))
        return references(open_splits(config, seed=self.recipe.training.seed).valid)

    def alignment(self, text: str, answer: Answer) -> tuple[list[str], list[str], torch.Tensor]:
        """Source pieces, answer pieces, and how much each of these looked at each of those: (T, S)."""
        tokenizers = self.task.tokenizers
        weights = self.task.alignment(self.module, text, answer.tokens)
        return tokenizers.source.tokens(text), tokenizers.target.pieces(list(answer.tokens)), weights

    def _answer_all(self, wanted: Mapping[str, list[str]], decoding: DecodingConfig | None) -> tuple[list[str], list[list[str]]]:
        found = self.answers(list(wanted), decoding=decoding)
        return [each[0].text for each in found], list(wanted.values())


class Validator:
    """What a run is judged by while it learns: loss on the validation pairs, and the score of greedy answers to them."""

    MOST = 1000  # sources answered: enough to rank checkpoints by

    def __init__(self, task: Translate, examples: Examples, batches: Sequence[Batch]) -> None:
        self.task = task
        self.batches = batches
        self.wanted = dict(islice(references(examples).items(), self.MOST))
        longest = max(int(batch.target.shape[1]) for batch in batches)
        self.decoding = DecodingConfig(beam=1, max_length=longest + longest // 2)

    def __call__(self, module: nn.Module) -> dict[str, float]:
        plain = Translate(self.task.tokenizers)
        targets = sum(batch.targets for batch in self.batches)
        loss = sum(float(plain.loss(module, batch)) for batch in self.batches) / targets
        found = self.task.answer(module, list(self.wanted), decoding=self.decoding)
        score = self.task.validation_score([each[0].text for each in found], list(self.wanted.values()))
        return {"loss": loss, **score}


def _settle(path: Path, recipe: Recipe) -> Recipe:
    """Keep the recipe beside the model; a directory that has one already must have the same, but for how long to train."""
    stored = path / "recipe.toml"
    if stored.exists():
        before = recipes.load(stored)
        changed = recipes.differences(before, recipe, except_for=("training.steps", "training.minutes", "training.patience"))
        if changed:
            raise RegardError(
                f"{path} was trained with another recipe ({'; '.join(changed)}); choose another directory with -o, or undo the change"
            )
    try:
        path.mkdir(parents=True, exist_ok=True)
        durable.write_file(stored, recipe.to_toml().encode())
    except OSError as error:
        raise RegardError(f"{path} cannot be written: {error.strerror}; choose another directory with -o") from None
    return recipe


def _tokenizers(path: Path, recipe: Recipe, examples: Examples, console: Console) -> Tokenizers:
    if (path / "tokenizer.json").exists() or (path / "target.json").exists():
        return Tokenizers.load(path)
    with console.status("learning a vocabulary"):
        tokenizers = Tokenizers.train(examples, recipe.tokenizer)
        tokenizers.save(path)
    return tokenizers


def _module(recipe: Recipe, tokenizers: Tokenizers) -> nn.Module:
    target = None if tokenizers.shared else tokenizers.target.size
    return models.from_config(recipe.model, vocabulary=tokenizers.source.size, target_vocabulary=target)


def _task(recipe: Recipe, tokenizers: Tokenizers) -> Translate:
    training = recipe.training
    lexicon = recipe.task == "transcribe"
    return Translate(tokenizers, lexicon=lexicon, smoothing=training.label_smoothing, r_drop=training.r_drop)
