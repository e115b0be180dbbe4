"""Tables of settings, and what is wrong with one as a sentence with the key, what was found and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from regard.errors import RegardError, shown, unknown_name

Config = TypeVar("Config", bound=BaseModel)


class Settings(BaseModel):
    """A table of settings. Each value has the type of its key, a whole number stands for a float, and no other value is
    converted: heads = true or heads = "8" is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def check(config: type[Config], settings: object, *, where: str) -> Config:
    """The checked form of some settings, or a RegardError that begins with `where`."""
    try:
        return config.model_validate(settings)
    except ValidationError as error:
        raise RegardError(f"{where}: {explain(error, config)}") from None
    except (OverflowError, RecursionError) as error:
        raise RegardError(f"{where}: a value cannot be read ({error}); use smaller or simpler ones") from None


def explain(error: ValidationError, config: type[BaseModel]) -> str:
    """The first thing that is wrong."""
    first, *others = error.errors()
    path = _path(first["loc"])
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = _fields(path[:-1], config)
        return str(unknown_name("key", key, [".".join([*path[:-1], name]) for name in known]))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"{key} is missing"
    if first["type"] == "value_error":
        return f"[{key}] {message}" if key else message
    if first["type"] in ("model_type", "dict_type") and not key:
        return f"a table with keys of its own is expected, and not {shown(first['input'])}"
    if first["type"] in ("model_type", "dict_type"):
        return f"{key} = {shown(first['input'])}: a table with keys of its own is expected, such as [{key}] in TOML"
    alike = [message, *(other["msg"] for other in others if _path(other["loc"]) == path)]
    wanted = ", or ".join(f"{each[0].lower()}{each[1:]}" for each in dict.fromkeys(alike))
    return f"{key} = {shown(first['input'])}: {wanted}"


def _path(place: Sequence[object]) -> list[str]:
    """The keys that lead to a place."""
    return [str(part) for part in place if not _is_branch(str(part))]


def _is_branch(part: str) -> bool:
    """Whether a part of a path is not a key: pydantic names the branch of a union that it tried."""
    return not part.replace("_", "").isalnum() or part in ("str", "int", "float", "bool", "Files") or "[" in part


def _fields(path: list[str], here: type[BaseModel]) -> list[str]:
    """The keys that are known at `path`."""
    for name in path:
        if name.isdigit():  # a place in a list
            continue
        inner = _model_in(here.model_fields[name].annotation) if name in here.model_fields else None
        if inner is None:
            return []
        here = inner
    return [field.alias or name for name, field in here.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The config class inside an annotation such as `Files | list[Files] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, UnionType, list):
        return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
    return None
