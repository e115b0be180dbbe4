"""A Hugging Face directory → a model of ours, and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor, nn

from regard import models
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.errors import RegardError
from regard.interchange.huggingface.architecture import Architecture, Settings
from regard.interchange.huggingface.bert import BERT
from regard.interchange.huggingface.distilbert import DISTILBERT
from regard.interchange.huggingface.gpt2 import GPT2
from regard.interchange.huggingface.heads import Head, body_for, head_settings, read_head, require_body_for
from regard.interchange.huggingface.marian import MARIAN
from regard.interchange.huggingface.roberta import ROBERTA
from regard.interchange.huggingface.tensors import WHOLE, plain_names, read_tensors, to_ours, to_theirs
from regard.interchange.huggingface.tokenizer import read_tokenizers, special_ids, write_tokenizers
from regard.models.heads import headed
from regard.training.checkpoint import load_weights

ARCHITECTURES = {each.model_type: each for each in (GPT2, BERT, DISTILBERT, ROBERTA, MARIAN)}


@dataclass(frozen=True)
class Imported:
    """A model that came from elsewhere: its config, its parameters by our names, its tokenizers if it had any, and the
    head if one of our tasks stands on it."""

    config: BaseModel
    weights: Mapping[str, Tensor]
    tokenizers: Tokenizers | None
    origin: Path
    head: Head | None = None

    def module(self) -> nn.Module:
        """The model itself, ready to answer."""
        module = _module(self.config, self.head)
        load_weights(module, dict(self.weights), origin=self.origin)
        return module.eval()


def import_directory(directory: str | Path) -> Imported:
    """Read a directory that `save_pretrained` has written. Nothing in it is executed."""
    directory = Path(directory)
    settings = Settings(_read_json(directory / "config.json"), str(directory / "config.json"))
    architecture = _architecture(settings)
    tensors = plain_names(read_tensors(directory), architecture)
    inner = read_tokenizers(directory, model_type=architecture.model_type)
    special = special_ids(directory, settings, inner)
    top = next((each for each in architecture.tops if each.name in settings.get("architectures", [])), None)
    try:
        config: Any = architecture.read(settings, tensors.keys(), special)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RegardError(
            f"{settings.where} does not describe a {architecture.model_type}: {key}: {first['msg']}"
        ) from None
    head = None
    if top is not None:
        config, head = body_for(config, top), read_head(settings, top)
    with torch.device("meta"):
        module = _module(config, head)
    weights = to_ours(tensors, architecture, architecture.table(config, top), module, config, where=directory)
    tokenizers = Tokenizers(*(Tokenizer(each, special=special) for each in inner)) if inner else None
    return Imported(config, weights, tokenizers, directory, head)


def export_directory(
    directory: str | Path,
    *,
    config: BaseModel,
    weights: Mapping[str, Tensor],
    tokenizers: Tokenizers | None = None,
    head: Head | None = None,
) -> None:
    """Write what `from_pretrained` reads: config.json, model.safetensors and the tokenizer."""
    directory = Path(directory)
    config = _with_vocabulary(config, weights)
    architecture = architecture_of(config)
    config, weights = architecture.prepare(config, weights)
    top, settings = None, {}
    if head is not None:
        top = next(each for each in architecture.tops if each.task == head.task)
        require_body_for(config, top)
        config, settings = body_for(config, top), head_settings(head, top)
    body = config if top is None else config.model_copy(update={"pooler": False})  # which is there part of the head
    written = {**architecture.write(body), **settings, "model_type": architecture.model_type, "dtype": "float32"}
    tensors = to_theirs(weights, architecture, architecture.table(config, top))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_file(tensors, directory / WHOLE, metadata={"format": "pt"})
        (directory / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise RegardError(f"{directory} cannot be written: {error.strerror}; choose another directory") from None
    if tokenizers is not None:
        write_tokenizers(
            directory, tokenizers, model_type=architecture.model_type, maximum=getattr(config, "maximum", None)
        )


def _module(config: Any, head: Head | None) -> nn.Module:
    if head is None:
        return models.from_config(config, vocabulary=0)
    return headed(config, classes=len(head.labels), pooled=head.pooled)


def architecture_of(config: Any) -> Architecture:
    """The architecture that one of our configs is written as."""
    if config.kind == "bert":
        return ROBERTA if config.offset else BERT if config.segments else DISTILBERT
    for architecture in ARCHITECTURES.values():
        if architecture.kind == config.kind:
            return architecture
    known: Collection[str] = sorted({architecture.kind for architecture in ARCHITECTURES.values()})
    raise RegardError(f"kind = {config.kind!r} has no counterpart in Hugging Face's library; {', '.join(known)} have")


def _with_vocabulary(config: BaseModel, weights: Mapping[str, Tensor]) -> BaseModel:
    """The config with its vocabulary stated, which a model learned here takes from its tokenizer."""
    tables = (
        ("embedding.table.weight", "encoder.embedding.table.weight", "source.table.weight"),
        ("target.table.weight",),
    )
    sizes = [next((len(weights[name]) for name in names if name in weights), None) for names in tables]
    keys = [key for key in ("vocabulary", "target_vocabulary") if key in type(config).model_fields]
    return config.model_copy(update=dict(zip(keys, sizes, strict=False)))


def _architecture(settings: Settings) -> Architecture:
    """The architecture that a config.json names."""
    model_type, names = settings.get("model_type"), settings.get("architectures", [])
    architecture = ARCHITECTURES.get(model_type)
    if architecture is None or any(name not in architecture.classes for name in names):
        known = ", ".join(name for each in ARCHITECTURES.values() for name in each.classes)
        found = ", ".join(map(str, names)) or f"model_type {model_type!r}"
        raise RegardError(
            f"{settings.where} is of an architecture that regard does not know: {found}; it knows {known}"
        )
    return architecture


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RegardError(
            f"{path.parent} has no {path.name}; name a directory that save_pretrained has written"
        ) from None
    except (OSError, ValueError) as error:
        raise RegardError(f"{path} is damaged ({error}); copy or download it again") from None
    if not isinstance(found, dict):
        raise RegardError(f"{path} is not an object of settings; copy or download it again")
    return found
