"""The recipes of a comparison: one for each combination of values, all checked before anything is trained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from regard import recipes
from regard.api.training import checked, require_same
from regard.directory import ModelDirectory
from regard.errors import RegardError, shown
from regard.recipes import Complete, Wish

Vary = Mapping[str, Sequence[object]]
Tell = recipes.Tell

PLAIN = re.compile(r"[^\w.+=,-]+")  # characters that the name of a directory is better without
LONGEST = 80  # characters of such a name
MOST = 1000  # runs of a comparison


class Written(str):
    """A value as it was written on the command line: TOML, or else a text."""


@dataclass(frozen=True)
class Variant:
    """One run of a comparison."""

    name: str
    path: Path  # its model directory
    values: Mapping[str, str]  # what is varied, as it was written
    wish: Wish
    recipe: Complete

    def judged_by(self) -> object:
        """What decides which examples the model is judged by."""
        data = self.recipe.data
        if entry := data.test or data.valid:
            return entry
        return data.model_dump(mode="json"), self.recipe.training.seed


def parse(texts: Iterable[str]) -> dict[str, list[Written]]:
    """What --vary says: KEY=A,B,… with commas between the values, but not inside brackets or quotes."""
    found: dict[str, list[Written]] = {}
    for text in texts:
        key, sign, values = text.partition("=")
        if not sign or not key.strip():
            raise RegardError(f"--vary {shown(text)}: expected KEY=A,B,…, for example model.score=additive,dot")
        if key.strip() in found:
            raise RegardError(f"--vary {key.strip()} is given twice; name all its values in one")
        found[key.strip()] = [Written(value.strip()) for value in _divided(values)]
    return found


def _divided(values: str) -> list[str]:
    """The values between commas that are in no brackets and no quotes."""
    found, depth, quote = [""], 0, ""
    for character in values:
        if character in "\"'":
            quote = "" if quote == character else quote or character
        elif not quote:
            depth += (character in "[{") - (character in "]}")
        if character == "," and not quote and depth <= 0:
            found.append("")
        else:
            found[-1] += character
    return found


def variants(recipe: str | Path, vary: Vary, *, out: Path, changes: Sequence[str], tell: Tell) -> list[Variant]:
    """Every combination of values, in the order of the keys, the last one changing fastest."""
    _require_values(vary, changes)
    said: set[str] = set()

    def once(line: str) -> None:
        if line not in said:
            tell(line)
        said.add(line)

    found: list[Variant] = []
    for chosen in product(*vary.values()):
        values = {key: _text(value) for key, value in zip(vary, chosen, strict=True)}
        name = _name(values, [each.name for each in found])
        try:
            wish = recipes.load(recipe, [*changes, *(f"{key}={text}" for key, text in values.items())], tell=once)
            complete, _ = checked(wish)
            complete.refuse_ignored()
            require_same(ModelDirectory(out / name), complete)
        except RegardError as error:
            raise RegardError(f"{label(values)}: {error}") from None
        found.append(Variant(name, out / name, values, wish, complete))
    return found


def label(values: Mapping[str, str]) -> str:
    """What a run is called: its values, with the last part of each key, or all of it where two are alike."""
    last = [key.rpartition(".")[2] for key in values]
    short = [each if last.count(each) == 1 else key for each, key in zip(last, values, strict=True)]
    return ", ".join(f"{key}={_unquoted(value)}" for key, value in zip(short, values.values(), strict=True))


def _require_values(vary: Vary, changes: Sequence[str]) -> None:
    fixed = {change.partition("=")[0].strip() for change in changes}
    runs = 1
    for key, values in vary.items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence) or not values:
            raise RegardError(f"vary {key} = {shown(values)}: a list of values is expected")
        written = [_text(value) for value in values]
        if "" in written:
            raise RegardError(f"--vary {key} has an empty value; write KEY=A,B,…")
        if len(set(written)) < len(written):
            raise RegardError(f"--vary {key} has a value twice; leave one out")
        if key in fixed:
            raise RegardError(f"{key} is varied and set; leave --set {key} out")
        runs *= len(values)
    if runs < 2:
        raise RegardError("one run is nothing to compare; name two values or more, such as --vary model.layers=2,4")
    if runs > MOST:
        raise RegardError(f"{runs:,} combinations are more than {MOST:,}; vary fewer keys")


def _text(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, Written):
        return str(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{json.dumps(str(key))} = {_text(each)}' for key, each in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False)
    raise RegardError(f"{shown(value)} cannot be the value of a recipe's key; give a text, a number, a list or a table")


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def _name(values: Mapping[str, str], taken: Sequence[str]) -> str:
    """The name of the directory of a run."""
    plain = PLAIN.sub("_", label(values).replace(", ", ",")).strip("._")[:LONGEST]
    names = [plain, *(f"{plain}-{number}" for number in range(2, MOST + 2))]
    return next(name for name in names if name not in taken)
