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
from regard.models.elmo import ElmoConfig
from regard.models.gpt import GPTConfig
from regard.models.rnn import RNNConfig
from regard.recipes import Recipe
from regard.recipes.bodies import BodyConfig
from regard.special import OWN
from regard.training.checkpoint import weights_of
from regard.training.config import TrainingConfig

BODIES = (BertConfig, ElmoConfig, GPTConfig, RNNConfig)
ANY = 1 << 20  # tokens
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
    if not isinstance(body.config, BODIES):
        kinds = ", ".join(str(each.model_fields["kind"].default) for each in BODIES)
        raise RegardError(f"model.body = {wish.body!r} cannot be one; the kinds that can are {kinds}")
    changes: dict[str, Any] = {"body": wish.body, "vocabulary": len(body.weights["embedding.table.weight"])}
    changes |= {key: value for key in ("dropout", "pooling") if (value := getattr(wish, key)) is not None}
    if isinstance(body.config, BertConfig):
        changes |= _heads(body.config, recipe.task, changes.get("pooling", body.config.pooling))
    model = recipes.check(type(body.config), {**body.config.model_dump(), **changes}, where="model")
    return recipe.model_copy(update={"model": model, "training": _training(recipe, model)})


def _heads(body: BertConfig, task: str, pooling: str | None) -> dict[str, bool]:
    """Which heads of a BERT a task needs."""
    follows = task == "fill" and body.next_sentence
    summed_up = pooling in ("pooler", None) if task == "classify" else pooling == "pooler" and task == "embed"
    return {"masked_words": task == "fill", "next_sentence": follows, "pooler": summed_up or follows}


def _training(recipe: Recipe, model: BaseModel) -> TrainingConfig:
    """[training], in which an ELMo that has a head to learn stays as it is unless told."""
    told = "freeze" in recipe.training.model_fields_set
    if not isinstance(model, ElmoConfig) or recipe.task in ("fill", "embed") or told:
        return recipe.training
    return recipe.training.model_copy(update={"freeze": "all"})


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
    """How the texts of a body are framed, and how long they may be: what has no positions reads any length."""
    assert isinstance(model, BODIES)
    room, segments = ANY, 0
    if isinstance(model, BertConfig):
        room, segments = model.maximum - model.offset, model.segments
    elif isinstance(model, GPTConfig) and model.position == "learned":
        room = model.maximum
    return Framing(model.special, min(room, max_length or room), segments=2 if segments != 1 else 1)
