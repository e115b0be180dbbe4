"""Models from elsewhere as model directories, and back."""

from __future__ import annotations

from pathlib import Path

from regard import durable, models, recipes, tasks
from regard.api.body import open_model
from regard.api.loading import complete, path_of, stored_recipe
from regard.directory import RECIPE, REPORT, WEIGHTS, ModelDirectory, Note, codec_files, tokenizer_sums
from regard.errors import RegardError
from regard.interchange.files import require_new
from regard.interchange.huggingface import Imported, export_directory, import_directory
from regard.interchange.packages import find_directory
from regard.interchange.sentence_transformers import WAYS, pooling_files, read_longest, read_pooling
from regard.models.facts import Use
from regard.recipes import Complete
from regard.tasks.base import Codec
from regard.tasks.rows import body_config
from regard.training import report as reports
from regard.training.report import Report
from regard.training.weights import to_bytes

UNLIMITED = 512  # tokens that are read of a text, for a model that reads any length


def import_model(source: str | Path, out: str | Path) -> Complete:
    """Write a Hugging Face directory, or the one inside an installed package, as a model directory.

    All of it is written or nothing, so that the same call works once there is space on the disk.
    """
    made = require_new(path_of(out))
    directory = find_directory(source if isinstance(source, str) else path_of(source))
    came = import_directory(directory)
    if came.tokenizers is None and not came.numbers:
        raise RegardError(f"{directory} has no tokenizer (tokenizer.json, vocab.txt or source.spm); add it")
    config, data = came.config, {}
    use = _use(came)
    task = tasks.suited(models.KINDS[config.kind].form, use)
    if use == "vector":
        config = config.model_copy(update={"pooling": read_pooling(directory)})
    if use in ("vector", "text", "tokens"):
        longest = config.reads() or UNLIMITED
        data = {"max_length": min(longest, read_longest(directory)) if use == "vector" else longest}
    tables = {"task": task, "data": data, "model": config.model_dump()}
    recipe = complete(recipes.make(tables, where=str(directory)), where=str(directory))
    learned = codec_files(Codec(came.tokenizers, came.labels if came.head is None else came.head.labels, came.numbers))
    note = Note(model=recipe.model.model_dump(mode="json"), files=tokenizer_sums(learned))
    files = {
        **learned,
        RECIPE: recipe.to_toml().encode(),
        REPORT: reports.dump(_report(came, task=task, kind=config.kind)),
        WEIGHTS: to_bytes(dict(came.weights), note),
    }
    durable.write_directory(made, files)
    return recipe


def _use(came: Imported) -> Use:
    """What a task would take of a model that came from elsewhere."""
    if came.head is not None:
        return came.head.shape
    if models.KINDS[came.config.kind].form != "encoder":
        return "whole"
    return "words" if came.config.says_words() else "vector"


def export_model(directory: str | Path, out: str | Path) -> None:
    """Write a model directory as Hugging Face's library reads it, and an embedder as sentence-transformers too."""
    stored, out = ModelDirectory(path_of(directory)), path_of(out)
    if not stored.is_model:
        raise RegardError(f"{stored.path} is not a model directory: it has no {RECIPE}; train or import one")
    recipe, model = stored_recipe(stored), open_model(stored)
    longest, more = recipe.data.model_dump().get("max_length"), None
    if tasks.task(recipe.task).uses == "vector" and isinstance(longest, int):
        pooling = body_config(model.config).pooling or "mean"
        if pooling in WAYS.values():
            more = pooling_files(pooling=pooling, width=model.config.width, longest=longest)
    export_directory(
        out,
        config=model.config,
        weights=model.weights,
        tokenizers=model.tokenizers,
        head=model.head,
        labels=model.labels,
        numbers=model.numbers,
        more=more,
    )


def _report(came: Imported, *, task: str, kind: str) -> Report:
    parameters = sum(tensor.numel() for tensor in came.weights.values())
    origin = {"imported_from": str(came.origin), "versions": reports.versions()}
    return {"task": task, "kind": kind, "parameters": parameters, "steps": 0, "scores": {}, **origin}
