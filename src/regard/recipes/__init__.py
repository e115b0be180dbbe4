"""A recipe is everything a run needs, as TOML: checked key by key, completed with defaults, kept beside the model.

`load("g2p")` reads a bundled recipe, `load("my.toml")` a file; `changes` are the `--set key=value` of the command line.
Paths in a recipe count from the folder one is in.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, ValidationInfo, field_validator

from regard import models
from regard.data.documents import DocumentsData
from regard.data.examples import DataConfig
from regard.data.labelled import LabelledData
from regard.data.questions import AnsweredData
from regard.data.similar import SimilarData
from regard.data.tagged import TaggedData
from regard.data.text import TextConfig
from regard.data.tokenizers import TokenizerConfig
from regard.decoding.config import DecodingConfig
from regard.errors import RegardError, unknown_name
from regard.recipes.bodies import BodyConfig
from regard.recipes.presets import fill_in
from regard.training.config import TrainingConfig

# which class checks the [data] of a task
DATA: dict[str, type[BaseModel]] = {
    "translate": DataConfig,
    "transcribe": DataConfig,
    "write": TextConfig,
    "embed": SimilarData,
    "classify": LabelledData,
    "tag": TaggedData,
    "answer": AnsweredData,
    "fill": DocumentsData,
}

SMOOTHED = ("translate", "transcribe")


class Recipe(BaseModel):
    """task, [data], [tokenizer], [model], [training], [decoding]."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Literal["translate", "transcribe", "write", "embed", "classify", "tag", "answer", "fill"] = "translate"
    data: Any = Field(default_factory=dict, validate_default=True)  # the class that DATA has for the task
    tokenizer: TokenizerConfig = Field(default_factory=TokenizerConfig)
    model: SerializeAsAny[BaseModel]
    training: TrainingConfig = Field(default_factory=dict, validate_default=True)
    decoding: DecodingConfig = Field(default_factory=DecodingConfig)

    @field_validator("data", mode="before")
    @classmethod
    def _by_task(cls, value: Any, found: ValidationInfo) -> Any:
        if not isinstance(value, Mapping) or "task" not in found.data:
            return value
        return DATA[found.data["task"]].model_validate(value)

    @field_validator("training", mode="before")
    @classmethod
    def _smoothed_by_task(cls, value: Any, found: ValidationInfo) -> Any:
        """Smoothed labels are the default where answers are searched for, and not where a probability is the answer."""
        if not isinstance(value, Mapping) or found.data.get("task") in SMOOTHED:
            return value
        return {"label_smoothing": 0.0, **value}

    @field_validator("model", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> Any:
        return _model_class(value).model_validate(value) if isinstance(value, Mapping) else value

    @property
    def kind(self) -> str:
        """Which system [model] describes."""
        return str(getattr(self.model, "kind", ""))

    def to_toml(self) -> str:
        """Complete, defaults filled in."""
        return tomli_w.dumps(_without_none(self.model_dump(mode="json")))


def bundled() -> dict[str, str]:
    """The recipes that come along: name → the first line of the file, which says what it is."""
    found = {}
    for entry in sorted(resources.files(__package__).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            found[entry.name.removesuffix(".toml")] = entry.read_text("utf-8").partition("\n")[0].lstrip("# ")
    return found


def load(recipe: str | Path, changes: Iterable[str] = ()) -> Recipe:
    """A bundled recipe by name, or a TOML file, with `changes` of the form "training.steps=500"."""
    where, text = _find(str(recipe))
    return parse(text, where=where, changes=changes)


def parse(text: str, *, where: str, changes: Iterable[str] = ()) -> Recipe:
    """A recipe from its TOML; `where` is named in errors."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RegardError(f"{where} is not TOML: {error}") from None
    for change in changes:
        _apply(table, change)
    table["model"] = _model_table(table, where=where)
    known = {"data": DATA.get(str(table.get("task")), DataConfig), "model": _model_class(table["model"])}
    try:
        return Recipe.model_validate(table)
    except ValidationError as error:
        raise RegardError(f"{where}: {_explain(error, Recipe, tables=known)}") from None


def _model_table(table: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """The [model] of a recipe with its preset filled in."""
    model = table.get("model")
    if isinstance(model, dict) and "body" in model and model.get("kind", "body") == "body":
        return model
    if not isinstance(model, dict) or not isinstance(model.get("kind"), str):
        raise RegardError(
            f'{where}: [model] needs a kind, for example kind = "transformer"; there are {", ".join(models.KINDS)}'
        )
    if model["kind"] not in models.KINDS:
        raise unknown_name(f"{where}: model.kind", model["kind"], models.KINDS)
    return fill_in(model, data=table.get("data", {}), where=where)


def _model_class(model: Mapping[str, Any]) -> type[BaseModel]:
    """What checks a [model]: the config class of its kind; without a kind, it is a body from elsewhere."""
    return models.config_class(model["kind"]) if model.get("kind", "body") != "body" else BodyConfig


Config = TypeVar("Config", bound=BaseModel)


def check(config: type[Config], settings: Mapping[str, Any], *, where: str) -> Config:
    """One table of a recipe from its settings, with the same errors as a whole recipe."""
    try:
        return config.model_validate(settings)
    except ValidationError as error:
        raise RegardError(f"{where}: {_explain(error, config)}") from None


def differences(before: Recipe, after: Recipe, *, except_for: Collection[str] = ()) -> list[str]:
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


def _find(recipe: str) -> tuple[str, str]:
    """Where a recipe is, and its text."""
    path = Path(recipe)
    if path.suffix == ".toml" or path.is_file():
        try:
            return recipe, path.read_text("utf-8")
        except FileNotFoundError:
            raise RegardError(f"{recipe} does not exist; name a TOML file or one of {', '.join(bundled())}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise RegardError(f"{recipe} cannot be read: {error}") from None
    if recipe not in bundled():
        raise unknown_name("recipe", recipe, bundled())
    return f"recipe {recipe}", (resources.files(__package__) / f"{recipe}.toml").read_text("utf-8")


def _apply(table: dict[str, Any], change: str) -> None:
    """Put one "key=value" into the table; the value is TOML, or else a plain string."""
    key, sign, value = change.partition("=")
    if not sign or not key.strip():
        raise RegardError(f"--set {change!r}: expected KEY=VALUE, for example training.steps=500")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    *outer, last = key.strip().split(".")
    for name in outer:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            raise RegardError(f"--set {change!r}: {name} is {inner!r} and has no parts")
        table = inner
    table[last] = parsed


Tables = Mapping[str, type[BaseModel]]  # the class of each table whose class depends on the recipe


def _explain(error: ValidationError, config: type[BaseModel], *, tables: Tables = MappingProxyType({})) -> str:
    """The first thing wrong, as a sentence with the key, what was found and what to do."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if not _is_branch(str(part))]
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = _fields(path[:-1], config, tables)
        return str(unknown_name("key", key, [".".join([*path[:-1], name]) for name in known]))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"{key} is missing"
    if first["type"] == "value_error":
        return f"[{key}] {message}" if key else message
    return f"{key} = {first['input']!r}: {message[0].lower()}{message[1:]}"


def _is_branch(part: str) -> bool:
    """pydantic names the branch of a union it tried; a user has not written that."""
    return not part.replace("_", "").isalnum() or part in ("str", "int", "float", "Files") or "[" in part


def _fields(path: list[str], here: type[BaseModel], tables: Tables) -> list[str]:
    """The keys that are known at `path`."""
    for depth, name in enumerate(path):
        if depth == 0 and name in tables:
            here = tables[name]
            continue
        inner = _model_in(here.model_fields[name].annotation) if name in here.model_fields else None
        if inner is None:
            return []
        here = inner
    return list(here.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The config class inside an annotation such as `Files | list[Files] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, UnionType, list):
        return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
    return None


def _without_none(value: Any) -> Any:
    """TOML has no null: a key without a value is left out."""
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value
