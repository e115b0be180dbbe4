"""Models from elsewhere as model directories, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard import recipes
from regard.errors import RegardError
from regard.interchange.huggingface import Imported, export_directory, import_directory
from regard.interchange.packages import find_directory
from regard.interchange.sentence_transformers import WAYS, read_longest, read_pooling, write_pooling
from regard.jobs.bodies import open_model
from regard.jobs.stored import LABELS
from regard.recipes import Recipe
from regard.training import durable
from regard.training import report as reports
from regard.training.checkpoint import to_bytes

TASKS = {"transformer": "translate", "gpt": "write", "bert": "embed"}


def import_model(source: str | Path, out: Path) -> Recipe:
    """Write a Hugging Face directory, or the one inside an installed package, as a model directory."""
    directory = find_directory(source)
    came = import_directory(directory)
    if came.tokenizers is None:
        raise RegardError(f"{directory} has no tokenizer (tokenizer.json, vocab.txt or source.spm); add it")
    config: Any = came.config
    task, data = "fill" if getattr(config, "masked_words", False) else TASKS[config.kind], {}
    if came.head is not None:
        task = came.head.task
        data = {} if task == "answer" else {"max_length": config.maximum - config.offset}
    if task == "embed":
        config = config.model_copy(update={"pooling": read_pooling(directory)})
        data = {"max_length": min(config.maximum - config.offset, read_longest(directory))}
    recipe = Recipe.model_validate({"task": task, "data": data, "model": config.model_dump()})
    durable.write_directory(_new(out), {})
    if came.head is not None:
        durable.write_file(out / LABELS, json.dumps(came.head.labels, ensure_ascii=False).encode())
    came.tokenizers.save(out)
    durable.write_file(out / "recipe.toml", recipe.to_toml().encode())
    durable.write_file(out / "report.json", reports.dump(_report(came, task=task, kind=config.kind)))
    durable.write_file(out / "weights.safetensors", to_bytes(dict(came.weights)))
    return recipe


def export_model(directory: Path, out: Path) -> None:
    """Write a model directory as Hugging Face's library reads it, and an embedder as sentence-transformers too."""
    if not (directory / "recipe.toml").is_file():
        raise RegardError(f"{directory} is no model directory: it has no recipe.toml; train or import one")
    model = open_model(directory)
    export_directory(
        _new(out), config=model.config, weights=model.weights, tokenizers=model.tokenizers, head=model.head
    )
    recipe = recipes.load(directory / "recipe.toml")
    config: Any = recipe.model
    pooling = getattr(config, "pooling", None) or "mean"
    if recipe.task == "embed" and pooling in WAYS.values():
        write_pooling(out, pooling=pooling, width=config.width, longest=recipe.data.max_length)


def _new(out: Path) -> Path:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RegardError(f"{out} is there already and not empty; name a directory that is not there yet")
    return out


def _report(came: Imported, *, task: str, kind: str) -> dict[str, Any]:
    parameters = sum(tensor.numel() for tensor in came.weights.values())
    origin = {"imported_from": str(came.origin), "versions": reports.versions()}
    return {"task": task, "kind": kind, "parameters": parameters, "steps": 0, "scores": {}, **origin}
