"""Bodies: models that are there already, learned here or elsewhere, and what another model takes from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch import nn

from regard import recipes
from regard.data.framing import Framing
from regard.data.tokenizers import Tokenizers
from regard.errors import RegardError, listed
from regard.interchange.huggingface import Head, Imported, import_directory
from regard.interchange.packages import find_directory
from regard.jobs.stored import read_labels, read_weights
from regard.layers.low_rank import merged
from regard.models.bert import BertConfig
from regard.recipes import Recipe
from regard.recipes.bodies import BodyConfig
from regard.special import OWN
from regard.training.checkpoint import weights_of

HEADS = ("pooler.", "transform.", "output.", "next_sentence.")


def open_body(name: str | Path) -> Imported:
    """The model of a directory, ours or Hugging Face's, or of the one inside an installed package."""
    path = find_directory(name)
    found = open_model(path) if (path / "recipe.toml").is_file() else import_directory(path)
    weights = found.weights
    if any(key.startswith("encoder.") for key in weights):  # what stands on a body is left where it is
        weights = {key.removeprefix("encoder."): each for key, each in weights.items() if key.startswith("encoder.")}
    return replace(found, weights=weights, head=None)


def open_model(path: Path) -> Imported:
    """A model directory of ours, changes of low rank merged."""
    recipe = recipes.load(path / "recipe.toml")
    tokenizers = Tokenizers.load(path, special=getattr(recipe.model, "special", OWN))
    head = Head(recipe.task, tuple(read_labels(path))) if recipe.task in ("classify", "tag", "answer") else None
    return Imported(recipe.model, merged(read_weights(path)), tokenizers, path, head)


def completed(recipe: Recipe) -> Recipe:
    """The recipe with the sizes of its body filled in, if it names one."""
    wish = recipe.model
    if not isinstance(wish, BodyConfig):
        return recipe
    body = open_body(wish.body)
    if not isinstance(body.config, BertConfig):
        raise RegardError(f"model.body = {wish.body!r} is no encoder; take one of the BERT family")
    filling = recipe.task == "fill"
    heads = {"masked_words": filling, "next_sentence": filling and body.config.next_sentence}
    changes: dict[str, Any] = {"body": wish.body, "vocabulary": len(body.weights["embedding.table.weight"]), **heads}
    changes |= {key: value for key in ("dropout", "pooling") if (value := getattr(wish, key)) is not None}
    summed_up = recipe.task == "classify" and changes.get("pooling", "pooler") == "pooler"
    changes["pooler"] = summed_up or bool(heads["next_sentence"])
    return recipe.model_copy(update={"model": body.config.model_copy(update=changes)})


def take_weights(encoder: nn.Module, name: str) -> None:
    """Give a module the weights of a body; only what stands on a body, which not every one has, may start by chance."""
    body, wanted = open_body(name), weights_of(encoder)
    found = {key: tensor for key, tensor in body.weights.items() if key in wanted}
    wrong = []
    for key, tensor in wanted.items():
        there = tuple(found[key].shape) if key in found else "missing"
        if there != tuple(tensor.shape) and not (there == "missing" and key.startswith(HEADS)):
            wrong.append(f"{key} is {there} and must be {tuple(tensor.shape)}")
    if wrong:
        raise RegardError(f"model.body = {name!r} does not fit [model]: {listed(wrong)}")
    encoder.load_state_dict(found, strict=False)


def framing_of(model: BaseModel, *, max_length: int | None = None) -> Framing:
    """How the texts of a BERT are framed, and how long they may be."""
    assert isinstance(model, BertConfig)
    room = model.maximum - model.offset
    return Framing(model.special, min(room, max_length or room), segments=2 if model.segments != 1 else 1)
