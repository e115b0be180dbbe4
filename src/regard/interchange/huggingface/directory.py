"""A Hugging Face directory → a model of ours, and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import safetensors.torch
import torch
from pydantic import BaseModel, JsonValue, ValidationError
from torch import Tensor, nn

from regard import durable, models
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.errors import RegardError
from regard.interchange.files import cut, read_json, require_new, shown
from regard.interchange.huggingface.architecture import Architecture, HeadClass, Settings, Tensors
from regard.interchange.huggingface.bert import BERT
from regard.interchange.huggingface.distilbert import DISTILBERT
from regard.interchange.huggingface.gpt2 import GPT2
from regard.interchange.huggingface.heads import (
    Head,
    body_for,
    head_settings,
    read_head,
    read_labels,
    require_body_for,
)
from regard.interchange.huggingface.marian import MARIAN
from regard.interchange.huggingface.others import refuse_other_formats, refuse_unsafe_weights
from regard.interchange.huggingface.pictures import PREPROCESSOR, picture_settings, preprocessor_file, read_numbers
from regard.interchange.huggingface.roberta import ROBERTA
from regard.interchange.huggingface.swin import SWIN
from regard.interchange.huggingface.tensors import WHOLE, longest_axis, plain_names, read_tensors, to_ours, to_theirs
from regard.interchange.huggingface.tokenizer import read_tokenizers, special_ids, tokenizer_files
from regard.interchange.huggingface.vit import VIT
from regard.interchange.huggingface.xlnet import XLNET
from regard.models.facts import ModelConfig
from regard.models.heads import headed
from regard.special import OWN, Special
from regard.training.weights import load_weights

ARCHITECTURES = {each.model_type: each for each in (GPT2, BERT, DISTILBERT, ROBERTA, MARIAN, XLNET, VIT, SWIN)}


@dataclass(frozen=True)
class Imported:
    """A model that came from elsewhere: its config, its parameters by our names, its tokenizers if it had any, and its
    head if it is a body with a head. A model that reads pictures has their labels, and what is measured on them."""

    config: ModelConfig
    weights: Mapping[str, Tensor]
    tokenizers: Tokenizers | None
    origin: Path
    head: Head | None = None
    labels: tuple[str, ...] = ()
    numbers: Mapping[str, JsonValue] = field(default_factory=dict)

    def module(self) -> nn.Module:
        """The model itself, ready to answer."""
        module = self._built()
        load_weights(module, dict(self.weights), origin=self.origin)
        return module.eval()

    def _built(self) -> nn.Module:
        if not self.numbers:
            return _module(self.config, self.head)
        sizes = {name: cast(int, self.numbers[name]) for name in ("channels", "rows", "columns")}
        return models.from_config(self.config, **sizes, outputs=len(self.labels))


def import_directory(directory: str | Path) -> Imported:
    """Read a directory that `save_pretrained` has written. Nothing in it is executed.

    Sizes are compared with the tensors before anything is built from them.
    """
    directory = Path(directory)
    refuse_other_formats(directory)
    settings = _read_settings(directory / "config.json")
    architecture, names = _architecture(settings)
    refuse_unsafe_weights(directory, names[0] if names else "AutoModel")
    tensors = plain_names(read_tensors(directory), architecture, where=directory)
    settings = replace(settings, largest=longest_axis(tensors))
    if architecture.pictures:
        return _import_pictures(directory, architecture, settings, tensors)
    sizes = [settings.number("vocab_size")] * 2  # of source and target
    if architecture is MARIAN and not settings.flag("share_encoder_decoder_embeddings", True):
        sizes[1] = settings.number("decoder_vocab_size", sizes[0])
    inner = read_tokenizers(directory, model_type=architecture.model_type, sizes=sizes)
    special = special_ids(directory, settings, inner, model_type=architecture.model_type, vocabulary=min(sizes))
    top = next((each for each in architecture.tops if each.name in names), None)
    config = _read_config(architecture, settings, tensors, special)
    head = None
    if top is not None:
        config, head = body_for(config, top), read_head(settings, top)
    with torch.device("meta"):
        module = _module(config, head)
    weights = to_ours(tensors, architecture, architecture.table(config, top), module, config, where=directory)
    tokenizers = Tokenizers(*(Tokenizer(each, special=special) for each in inner)) if inner else None
    return Imported(config, weights, tokenizers, directory, head)


def _read_config(architecture: Architecture, settings: Settings, tensors: Tensors, special: Special) -> Any:
    try:
        return architecture.read(settings, tensors.keys(), special)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RegardError(
            f"{settings.where} does not describe a {architecture.model_type}: {key}: {cut(first['msg'])}"
        ) from None


def _import_pictures(directory: Path, architecture: Architecture, settings: Settings, tensors: Tensors) -> Imported:
    """A model that reads pictures: it has labels, and no tokens."""
    config = _read_config(architecture, settings, tensors, OWN)
    labels, numbers = read_labels(settings), read_numbers(directory, settings)
    wanted = Imported(config, {}, None, directory, labels=labels, numbers=numbers)
    with torch.device("meta"):
        module = wanted._built()
    weights = to_ours(tensors, architecture, architecture.table(config, None), module, config, where=directory)
    return replace(wanted, weights=weights)


def export_directory(
    directory: str | Path,
    *,
    config: BaseModel,
    weights: Mapping[str, Tensor],
    tokenizers: Tokenizers | None = None,
    head: Head | None = None,
    labels: Sequence[str] = (),
    numbers: Mapping[str, JsonValue] | None = None,
    more: Mapping[str, bytes] | None = None,
) -> None:
    """Write what `from_pretrained` reads: config.json, model.safetensors, the tokenizer of a model of texts or the
    preprocessor of a model of pictures, for which `labels` and `numbers` are; and `more` files by name.

    The directory must not exist yet, or be empty. It appears under its name when all of its files are written.
    """
    out = require_new(Path(directory))
    config = _with_vocabulary(config, weights)
    architecture = architecture_of(config)
    config, weights = architecture.prepare(config, weights)
    top, settings = None, {}
    if head is not None:
        top = _top(architecture, head)
        require_body_for(config, top)
        config, settings = body_for(config, top), head_settings(head, top)
    body: Any = config if top is None else config.model_copy(update={"pooler": False})  # there it belongs to the head
    written = {**architecture.write(body), **settings, "model_type": architecture.model_type, "dtype": "float32"}
    if architecture.pictures and numbers:
        written |= picture_settings(numbers, labels)
        more = {PREPROCESSOR: preprocessor_file(numbers), **(more or {})}
    tensors = to_theirs(weights, architecture, architecture.table(config, top))
    files = {WHOLE: safetensors.torch.save(tensors, metadata={"format": "pt"}), "config.json": _json(written)}
    if architecture.generation is not None:
        files["generation_config.json"] = _json(architecture.generation(config))
    if tokenizers is not None:
        files |= tokenizer_files(
            tokenizers,
            model_type=architecture.model_type,
            segments=getattr(body, "segments", 0),
            longest=body.maximum - getattr(body, "offset", 0) if "maximum" in type(body).model_fields else None,
        )
    durable.write_directory(out, {**files, **(more or {})})


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()


def _top(architecture: Architecture, head: Head) -> HeadClass:
    """Their class for a head of ours."""
    for top in architecture.tops:
        if top.shape == head.shape:
            return top
    raise RegardError(
        f"a head on kind = {architecture.kind!r} cannot be written as {architecture.model_type}: "
        "regard writes heads on the kinds 'bert' and 'xlnet' only"
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


def _architecture(settings: Settings) -> tuple[Architecture, list[str]]:
    """The architecture that a config.json names, and its classes; the model_type alone names a body."""
    model_type, names = settings.get("model_type"), settings.get("architectures", [])
    if not isinstance(model_type, str):
        raise settings.wrong("model_type", f"must be one of {', '.join(ARCHITECTURES)}")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise settings.wrong("architectures", "must be a list of the names of classes")
    architecture = ARCHITECTURES.get(model_type)
    if architecture is None or any(name not in architecture.classes for name in names):
        known = ", ".join(name for each in ARCHITECTURES.values() for name in each.classes)
        found = cut(", ".join(names)) or f"model_type {shown(model_type)}"
        raise RegardError(
            f"{settings.where} is of an architecture that regard does not know: {found}; it knows {known}"
        )
    return architecture, names


def _read_settings(path: Path) -> Settings:
    try:
        return Settings(read_json(path), str(path))
    except FileNotFoundError:
        raise RegardError(
            f"{path.parent} has no {path.name}; name a directory that save_pretrained has written"
        ) from None
