"""Pretrained bodies: models that were learned here or elsewhere, and what another model takes from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

from torch import nn

from regard import models, recipes, tasks
from regard.api.loading import complete, stored_recipe
from regard.directory import ModelDirectory
from regard.errors import RegardError, listed
from regard.interchange.huggingface import Head, Imported, Shape, import_directory
from regard.interchange.packages import find_directory
from regard.layers.low_rank import merged
from regard.models.facts import BodyConfig
from regard.models.heads import body_of
from regard.recipes import Complete, Pretrained
from regard.tasks.base import Codec
from regard.training.config import TrainingConfig
from regard.training.weights import weights_of


def open_body(name: str | Path) -> Imported:
    """The model of a directory, ours or Hugging Face's, or of the one inside an installed package, without a head."""
    path = find_directory(name)
    directory = ModelDirectory(path)
    found = open_model(directory) if directory.is_model else import_directory(path)
    weights = found.weights
    if any(key.startswith("encoder.") for key in weights):  # a head stood on it
        weights = {key.removeprefix("encoder."): each for key, each in weights.items() if key.startswith("encoder.")}
    return replace(found, weights=weights, head=None)


def open_model(directory: ModelDirectory) -> Imported:
    """A model directory of ours, changes of low rank merged."""
    recipe = stored_recipe(directory)
    codec = directory.codec(recipe.model.ids())
    use = tasks.task(recipe.task).uses
    head = Head(use, codec.labels) if use == "text" or use == "tokens" or use == "span" else None
    weights = merged(directory.weights())
    return Imported(
        recipe.model, weights, codec.tokenizers, directory.path, head, labels=codec.labels, numbers=codec.numbers
    )


def completed(recipe: recipes.Wish) -> tuple[Complete, Imported | None]:
    """The recipe with the sizes of its pretrained body filled in, and that body, if it names one."""
    wish = recipe.model
    if not isinstance(wish, Pretrained):
        known = complete(recipe, where="the recipe")
        name = known.model.starts_from()
        return known, open_body(name) if name else None
    body = open_body(wish.body)
    if not isinstance(body.config, BodyConfig):
        kinds = ", ".join(kind for kind in models.KINDS if issubclass(models.config_class(kind), BodyConfig))
        raise RegardError(f"model.body = {wish.body!r} cannot be one; the kinds that can are {kinds}")
    use = tasks.task(recipe.task).uses
    changes: dict[str, object] = {"body": wish.body, "vocabulary": len(body.weights["embedding.table.weight"])}
    changes |= {
        key: value for key, value in (("dropout", wish.dropout), ("pooling", wish.pooling)) if value is not None
    }
    model = recipes.check(type(body.config), {**body.config.model_dump(), **changes}, where="model").suited(use)
    training = _training(recipe.training, model, headed=use in get_args(Shape))
    tables = recipe.model_dump(exclude_unset=True) | {"model": model.model_dump(), "training": training.model_dump()}
    return complete(recipes.make(tables, where="the recipe"), where="the recipe"), body


def _training(training: TrainingConfig, model: BodyConfig, *, headed: bool) -> TrainingConfig:
    """[training]; a kind that is frozen under a head stays frozen unless `training.freeze` says otherwise."""
    if not headed or not model.frozen_under_a_head or "freeze" in training.model_fields_set:
        return training
    return training.model_copy(update={"freeze": "all"})


def start_from(body: Imported, module: nn.Module) -> None:
    """Copy the weights of a body into a module.

    Every weight of the body must be there and fit, except those of heads that the module has and the body has not:
    these start at random.
    """
    encoder = body_of(module)
    wanted = weights_of(encoder)
    found = {key: tensor for key, tensor in body.weights.items() if key in wanted}
    wrong = []
    for key, tensor in wanted.items():
        there = tuple(found[key].shape) if key in found else "missing"
        if there != tuple(tensor.shape) and not (there == "missing" and key.startswith(encoder.heads)):
            wrong.append(f"{key} is {there} and must be {tuple(tensor.shape)}")
    if wrong:
        raise RegardError(f"model.body = {str(body.origin)!r} does not fit [model]: {listed(wrong)}")
    encoder.load_state_dict(found, strict=False)


def codec_of(body: Imported) -> Codec:
    """The tokenizer of a body."""
    if body.tokenizers is None:
        raise RegardError(f"model.body = {str(body.origin)!r} has no tokenizer; add tokenizer.json or vocab.txt to it")
    return Codec(body.tokenizers)
