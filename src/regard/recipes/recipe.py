"""A recipe: everything a run needs, as checked tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar

import tomli_w
from pydantic import BaseModel, Field

from regard.checking import Settings
from regard.data.splits import DataTable
from regard.data.tokenizers import TokenizerConfig
from regard.decoding.config import DecodingConfig
from regard.errors import RegardError, shown
from regard.models.facts import ModelConfig
from regard.recipes.body import Pretrained
from regard.tasks import task as task_class
from regard.tasks.base import OPTIONAL_KEYS, Setting
from regard.training.config import TrainingConfig

DataT = TypeVar("DataT", bound=DataTable)
ModelT = TypeVar("ModelT", bound=ModelConfig | Pretrained)


class Recipe(Settings, Generic[DataT, ModelT]):
    """task, [data], [tokenizer], [model], [training], [decoding]."""

    task: str
    data: DataT
    tokenizer: TokenizerConfig = Field(default_factory=TokenizerConfig)
    model: ModelT
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    decoding: DecodingConfig = Field(default_factory=DecodingConfig)

    @property
    def kind(self) -> str:
        """Which system [model] describes."""
        return self.model.kind

    def to_toml(self) -> str:
        """Complete, defaults filled in."""
        return tomli_w.dumps(_without_none(self.model_dump(mode="json", by_alias=True)))

    def refuse_ignored(self) -> None:
        """Refuse a key that is set and that the task does not use, by name."""
        honoured = task_class(self.task).honours
        neutral = _flat({"tokenizer": TokenizerConfig().model_dump(), "training": TrainingConfig().model_dump()})
        neutral |= _flat({"decoding": DecodingConfig().model_dump(), "model": {"body": None}})
        for key, value in _flat(self.model_dump()).items():
            optional = next((each for each in OPTIONAL_KEYS if key == each or key.startswith(f"{each}.")), None)
            if optional is not None and optional not in honoured and value != neutral.get(key):
                raise RegardError(f'{key} = {shown(value)} has no effect for task = "{self.task}"; leave it out')


Complete = Recipe[DataTable, ModelConfig]  # a recipe whose [model] has all its sizes


def setting(recipe: Complete) -> Setting[DataTable]:
    """What of a recipe its task may know."""
    return Setting(
        data=recipe.data,
        tokenizer=recipe.tokenizer,
        model=recipe.model,
        decoding=recipe.decoding,
        seed=recipe.training.seed,
        batch_tokens=recipe.training.batch_tokens,
        batch_size=recipe.training.batch_size,
        label_smoothing=recipe.training.label_smoothing,
        r_drop=recipe.training.r_drop,
    )


def differences(before: BaseModel, after: BaseModel, *, except_for: Collection[str] = ()) -> list[str]:
    """The keys on which two recipes differ, each as "key: before → after"."""
    old, new = _flat(before.model_dump(mode="json")), _flat(after.model_dump(mode="json"))
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key) and key not in except_for]
    return [f"{key}: {old.get(key)} → {new.get(key)}" for key in keys]


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"data": {"train": …}} → {"data.train": …}"""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value})
    return flat


def _without_none(value: Any) -> Any:
    """TOML has no null: a key without a value is left out."""
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value
