"""What `regard run` does: choose a runtime, answer, print. Torch is imported only where CTranslate2 will not do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from regard.data.tokenizers import Tokenizers
from regard.decoding.config import DecodingConfig, changed
from regard.errors import RegardError
from regard.interchange.expressible import read_recipe
from regard.runtime.choose import reason_for_torch
from regard.runtime.measure import ComputeType
from regard.tasks.answers import CHUNK, Found

RuntimeName = Literal["auto", "torch", "ctranslate2"]

PAIRS = ("translate", "transcribe")


@dataclass(frozen=True)
class Question:
    """What is asked of a model: changes to its [decoding], how answers must begin, and what to print of them."""

    changes: Mapping[str, Any]
    prefix: str | None = None
    stop: tuple[str, ...] = ()  # what ends a text that is being written
    alignment: bool = False
    as_json: bool = False
    at_once: bool = False  # each line by itself, for someone who types

    @property
    def scored(self) -> bool:
        return self.as_json or self.changes.get("n_best", 1) > 1


@dataclass(frozen=True)
class Chosen:
    """A runtime for a question: its name, why it and not the other, and what answers texts, so many together."""

    name: str
    why: str
    tokenizers: Tokenizers
    stream: Callable[[Iterable[str], int], Iterator[tuple[str, list[Found]]]]


def run(
    directory: Path,
    groups: Iterable[Iterable[str]],
    question: Question,
    *,
    runtime: RuntimeName,
    compute_type: ComputeType,
) -> None:
    """Answer texts and print the answers, in order; a model that writes goes on from them.

    The texts of a group may be answered together; the next group may be yet to come.
    """
    task = read_recipe(directory).get("task")
    if task == "write":
        from regard.prompter import go_on

        _refuse_for_writing(question, runtime=runtime, compute_type=compute_type)
        go_on(
            directory,
            chain.from_iterable(groups),
            changes=question.changes,
            stop=question.stop,
            as_json=question.as_json,
        )
        return
    if question.stop:
        raise RegardError('--stop is for models of task = "write"; leave it out')
    if task not in PAIRS:
        _run_reader(directory, groups, question)
        return
    chosen = choose(directory, question, runtime=runtime, compute_type=compute_type)
    for group in groups:
        for line, answers in chosen.stream(group, 1 if question.at_once else CHUNK):
            _print(line, answers, chosen.tokenizers, question)


def _refuse_for_writing(question: Question, *, runtime: RuntimeName, compute_type: ComputeType) -> None:
    given = {
        "--prefix": question.prefix is not None,
        "--alignment": question.alignment,
        "--replace-unknown": "replace_unknown" in question.changes,
        "--runtime ctranslate2": runtime == "ctranslate2",
        "--compute-type": compute_type != "float32",
    }
    for option in (name for name, is_given in given.items() if is_given):
        raise RegardError(f"{option} is for models of pairs, and this one writes; leave it out")


def _run_reader(directory: Path, groups: Iterable[Iterable[str]], question: Question) -> None:
    """Models that answer with something other than a text: labels, tags, spans, vectors."""
    from regard.api import load

    unused = [name for name, value in question.changes.items() if (name, value) != ("n_best", 1)]
    unused += [name for name in ("prefix", "alignment") if getattr(question, name)]
    model = load(directory)
    if unused:
        raise RegardError(f'{directory} is for task = "{model.recipe.task}", to which --{unused[0]} says nothing')
    for texts in groups:
        remaining = iter(texts)
        while lines := list(islice(remaining, 1 if question.at_once else CHUNK)):
            for line, answer in zip(lines, model([model.read(line) for line in lines]), strict=True):
                if question.as_json:
                    print(json.dumps({"input": line, "answers": answer}, ensure_ascii=False), flush=True)
                else:
                    print(*model.shown(answer), sep="\n", flush=True)


def choose(directory: Path, question: Question, *, runtime: RuntimeName, compute_type: ComputeType) -> Chosen:
    """The runtime that answers a question to a model."""
    recipe, tokenizers = read_recipe(directory), Tokenizers.load(directory)
    decoding = _decoding(changed(recipe.get("decoding", {}), question.changes))
    prefix = tuple(tokenizers.target.encode([question.prefix])[0]) if question.prefix else ()
    model = recipe.get("model", {})
    reason = reason_for_torch(model, decoding, vocabulary=tokenizers.target.size, prefix=prefix)
    if runtime == "ctranslate2" and reason is not None:
        raise RegardError(f"--runtime ctranslate2 cannot answer this: {reason}; leave that option out to use torch")
    by_torch = runtime == "torch" or reason is not None
    if by_torch and compute_type != "float32":
        raise RegardError(
            f"--compute-type {compute_type} is for CTranslate2: {reason or 'and --runtime torch was given'}"
        )
    if by_torch:
        stream = _by_torch(directory, question, decoding)
        return Chosen("torch", reason or "it was asked for", tokenizers, stream)
    from regard.runtime.translator import Request, Translator

    translator = Translator(directory, model, tokenizers, compute_type=compute_type)
    request = Request(decoding, prefix, alignment=question.alignment, scores=question.scored)
    why = "it was asked for" if runtime == "ctranslate2" else "it gives the same answers faster"
    return Chosen("ctranslate2", why, tokenizers, lambda texts, n: translator.stream(texts, request, together=n))


def _by_torch(
    directory: Path, question: Question, decoding: DecodingConfig
) -> Callable[[Iterable[str], int], Iterator[tuple[str, list[Found]]]]:
    from regard.api import load
    from regard.jobs.translator import as_translator

    model = as_translator(load(directory))

    def stream(texts: Iterable[str], together: int) -> Iterator[tuple[str, list[Found]]]:
        for line, answers in model.stream(texts, decoding=decoding, prefix=question.prefix, together=together):
            aligned = [model.word_alignment(line, answer) if question.alignment else None for answer in answers]
            yield line, [Found(*pair) for pair in zip(answers, aligned, strict=True)]

    return stream


def _decoding(settings: dict[str, Any]) -> DecodingConfig:
    try:
        return DecodingConfig.model_validate(settings)
    except ValueError:
        from regard.recipes import check  # slow to import, and wanted only to say what is wrong

        return check(DecodingConfig, settings, where="decoding")


def _print(line: str, answers: list[Found], tokenizers: Tokenizers, question: Question) -> None:
    if question.as_json:
        found = [
            {"text": answer.text, "score": answer.score, "tokens": tokenizers.target.pieces(list(answer.tokens))}
            | ({} if pairs is None else {"alignment": pairs})
            for answer, pairs in answers
        ]
        print(json.dumps({"input": line, "answers": found}, ensure_ascii=False), flush=True)
        return
    for answer, pairs in answers:
        columns = [answer.text.replace("\n", " "), *([f"{answer.score:.4f}"] if question.scored else [])]
        columns += [] if pairs is None else [" ".join(f"{source}-{target}" for source, target in pairs)]
        print(*columns, sep="\t", flush=True)
