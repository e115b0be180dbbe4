"""The verbs, in Python: `train` and `load` give a `Model`, which answers, scores itself and shows what it looks at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import safetensors.torch
import torch
from rich.console import Console
from safetensors import SafetensorError
from torch import nn

from regard import models, recipes
from regard.data import shortlist
from regard.data.batches import Batches, evaluation_batches
from regard.data.corpus import Corpus, prepare
from regard.data.dropout import Dropout
from regard.data.examples import DataConfig, Examples, open_examples, open_splits, references
from regard.data.tokenizers import Tokenizers
from regard.decoding.config import DecodingConfig, changed
from regard.errors import RegardError
from regard.look.capture import capture
from regard.look.record import Record
from regard.look.statistics import statistics
from regard.recipes import Recipe
from regard.special import OWN
from regard.tasks.answers import CHUNK, Answer
from regard.tasks.scores import Score
from regard.tasks.significance import Comparison
from regard.tasks.translate import Translate
from regard.teacher import distil
from regard.training import durable, machine
from regard.training import report as reports
from regard.training.checkpoint import Checkpoints, load_weights
from regard.training.run import Objective
from regard.training.train import train as train_in

# what may change when a run is gone on with: how long it goes on, and on what
LIMITS = ("training.steps", "training.minutes", "training.patience")
CHANGEABLE = (*LIMITS, "training.threads", "training.device")

Pairs = str | Path | Mapping[str, str] | None  # a file, {"source": file, "target": file}, or what the recipe names


def train(
    recipe: str | Path | Recipe, *, out: str | Path | None = None, changes: Iterable[str] = (), show: bool = False
) -> Model:
    """Train what a recipe says, in the directory `out` (runs/NAME unless given); one that exists is gone on with.

    `changes` are "key=value" as on the command line; `show` reports progress on standard error.
    """
    chosen = recipe if isinstance(recipe, Recipe) else recipes.load(recipe, changes)
    name = "model" if isinstance(recipe, Recipe) else Path(recipe).stem
    path = Path(out) if out is not None else Path("runs") / name
    if models.KINDS[chosen.kind].form != "pairs":
        able = ", ".join(models.kinds("pairs"))
        raise RegardError(
            f'task = "{chosen.task}" needs a model that answers pairs ({able}), not kind = "{chosen.kind}"'
        )
    _make_directory(path)
    with durable.alone(path):
        return _train(chosen, path, Console(stderr=True, quiet=not show, highlight=False))


def _train(chosen: Recipe, path: Path, console: Console) -> Model:
    begun = _settle(path, chosen)
    device = machine.prepare(chosen.training)
    splits = open_splits(chosen.data, seed=chosen.training.seed)
    if chosen.data.teacher:
        taught = path / "checkpoints" / "teacher"
        splits = replace(
            splits, train=distil(splits.train, teacher=Path(chosen.data.teacher), folder=taught, console=console)
        )
    tokenizers = Tokenizers.load(path) if begun else _learn_tokenizers(path, chosen, splits.train, console)
    train_corpus = _corpus("train", splits.train, tokenizers, path, chosen, console)
    _require_same_data(path, train_corpus, begun=begun)
    valid_corpus = _corpus("valid", splits.valid, tokenizers, path, chosen, console)
    torch.manual_seed(chosen.training.seed)
    module = _module(chosen, tokenizers)
    task = _task(chosen, tokenizers)
    batch_tokens, seed = chosen.training.batch_tokens, chosen.training.seed
    batches = Batches(train_corpus, batch_tokens=batch_tokens, seed=seed, dropout=_dropout(chosen, tokenizers))
    validator = Validator(task, splits.valid, valid_corpus, batch_tokens=batch_tokens, device=device)
    final = FinalScores(task, splits.test or splits.valid, decoding=chosen.decoding, console=console)
    console.out(_summary(chosen, {"train": train_corpus, "valid": valid_corpus}, tokenizers, module))
    report = train_in(
        module,
        task,
        batches,
        config=chosen.training,
        directory=path,
        names={"task": chosen.task, "kind": chosen.kind},
        width=getattr(chosen.model, "width", None),
        objective=Objective("word_error") if task.lexicon else Objective("bleu", higher=True),
        validate=validator,
        score=final,
        console=console,
    )
    if chosen.decoding.shortlist:
        sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
        durable.write_file(path / shortlist.NAME, shortlist.learn(train_corpus, **sizes).to_bytes())
    if final.signatures:
        report["signatures"] = final.signatures
        durable.write_file(path / "report.json", reports.dump(report))
    else:
        limits = ", ".join(LIMITS)
        console.out(f"nothing is left to do: {report['ended']}; raise {limits}, or choose another directory with -o")
    return Model(path, chosen, module, task, report)


def load(path: str | Path) -> Model:
    """A trained model from its directory. Nothing in it is executed."""
    path = Path(path)
    if not (path / "weights.safetensors").is_file():
        raise RegardError(f"{path} is no model directory: it has no weights.safetensors; train one with: regard train")
    recipe = recipes.load(path / "recipe.toml")
    if missing := [name for name in Recipe.model_fields if name not in recipe.model_fields_set]:
        raise RegardError(f"{path / 'recipe.toml'} has no [{missing[0]}], so it was cut off; copy the model again")
    tokenizers = Tokenizers.load(path, special=getattr(recipe.model, "special", OWN))
    module = _module(recipe, tokenizers)
    load_weights(module, _read_weights(path / "weights.safetensors"), origin=path)
    return Model(path, recipe, module.eval(), _task(recipe, tokenizers), _read_report(path / "report.json"))


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
        self, other: Model, data: Pairs = None, *, decoding: DecodingConfig | None = None, tokenize: str = "13a"
    ) -> Comparison:
        """This model and another on the same pairs: scores of both, and how likely their difference is chance."""
        wanted = self.references(data)
        first, right = self._answer_all(wanted, decoding)
        second, _ = other._answer_all(wanted, decoding)
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
        return _wanted(examples)

    @property
    def judged_on(self) -> str:
        """The pairs that `evaluate` takes unless others are given."""
        data = self.recipe.data
        return "data.test" if data.test else "data.valid" if data.valid else "the pairs held out of data.train"

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
        """What the model looks at when it answers `text`, or when it is made to say `reference`.

        With `layer` or `head`, no other weights are computed. The record shows itself in a notebook;
        `.save("look.html")` writes the page, .png a picture, .json the numbers.
        """
        record = capture(
            self.module,
            self.task,
            text,
            decoding=decoding or self.recipe.decoding,
            reference=reference,
            only="*" if layer is None else f"*.{layer}.*",
            head=head,
            beam=beam,
        )
        names = {"name": str(self.path), "kind": self.recipe.kind, "task": self.recipe.task}
        return replace(record, model=names)

    def habits(self, texts: Iterable[str]) -> dict[str, Any]:
        """What each head tends to do, averaged over many texts: `statistics` of a record."""
        decoding = self.decoding({"beam": 1})
        return statistics(capture(self.module, self.task, text, decoding=decoding, saliency=False) for text in texts)

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
        self, wanted: Mapping[str, list[str]], decoding: DecodingConfig | None
    ) -> tuple[list[str], list[list[str]]]:
        found = self.answers(list(wanted), decoding=decoding)
        return [each[0].text for each in found], list(wanted.values())


class Validator:
    """What a run is judged by while it learns: loss on the validation pairs, and the score of greedy answers."""

    MOST = 1000  # sources answered: enough to rank checkpoints by

    def __init__(
        self, task: Translate, examples: Examples, corpus: Corpus, *, batch_tokens: int, device: torch.device
    ) -> None:
        self.task = task
        self.plain = Translate(task.tokenizers)
        self.batches = [batch.to(device) for batch in evaluation_batches(corpus, batch_tokens=batch_tokens)]
        self.wanted = dict(islice(_wanted(examples).items(), self.MOST))
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
        self.wanted = _wanted(examples)
        self.signatures: dict[str, str] = {}

    def __call__(self, module: nn.Module) -> dict[str, float]:
        with self.console.status(f"answering {len(self.wanted):,} texts to score the model"):
            found = self.task.answer(module, list(self.wanted), decoding=self.decoding)
            scores = self.task.scores([each[0].text for each in found], list(self.wanted.values()))
        self.signatures = {name: score.signature for name, score in scores.items()}
        return {name: score.value for name, score in scores.items()}


def _wanted(examples: Examples) -> dict[str, list[str]]:
    """Each source once, with every target that counts as right; a line with nothing on it is no pair."""
    found = references(pair for pair in examples if pair.source.strip() or pair.target.strip())
    if not found:
        raise RegardError(
            f"{', '.join(map(str, examples.entries))} has no pairs to score a model on; name another file"
        )
    return found


def _settle(path: Path, recipe: Recipe) -> bool:
    """Keep the recipe beside the model, and say whether something was learned there before.

    If so, it must have been by the same recipe, but for how long to train.
    """
    stored = path / "recipe.toml"
    begun = (path / "weights.safetensors").exists() or bool(Checkpoints(path / "checkpoints").steps())
    if begun and stored.exists():
        changed = recipes.differences(recipes.load(stored), recipe, except_for=CHANGEABLE)
        if changed:
            raise RegardError(
                f"{path} was trained with another recipe ({'; '.join(changed)}); "
                "choose another directory with -o, or undo the change"
            )
    durable.write_file(stored, recipe.to_toml().encode())
    return begun


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegardError(f"{path} cannot be written: {error.strerror}; choose another directory with -o") from None


def _require_same_data(path: Path, corpus: Corpus, *, begun: bool) -> None:
    """A run goes on with the pairs it began with; what counts is what they say, not where or when they were written."""
    note = path / "checkpoints" / "learned-from.json"
    known = json.loads(note.read_bytes()) if note.exists() else None
    if known == corpus.checksum:
        return
    if begun and known is not None:
        raise RegardError(
            f"{path} was trained on other pairs than data.train has now; choose another directory with -o, "
            "or put the file back as it was"
        )
    durable.write_file(note, json.dumps(corpus.checksum).encode())


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


def _read_report(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RegardError(f"{path} is damaged ({error}); copy the model directory again, or delete that file") from None
    return found


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, SafetensorError) as error:
        raise RegardError(f"{path} is damaged ({error}); copy the model directory again, or train it anew") from None


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
