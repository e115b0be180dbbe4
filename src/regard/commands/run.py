"""`regard run`: lines in, answers out, in order, for every task. Torch is imported only if it has to answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any

from regard import tasks
from regard.checking import check
from regard.decoding.config import DecodingConfig, changed
from regard.directory import ModelDirectory
from regard.engines.choose import EngineName, without_torch
from regard.engines.ctranslate2.plans import ComputeType
from regard.errors import RegardError
from regard.tasks.base import AnySurface, Engine, RunOptions

MARKS = ("prefix", "stop", "alignment", "runtime", "compute_type")  # options that are no keys of [decoding]


@dataclass(frozen=True)
class Asking:
    """A model directory that is being asked: its surface, how to answer, and the engine that does."""

    surface: AnySurface
    options: RunOptions
    engine: Engine[Any, Any]
    pieces: Callable[[Any, RunOptions], Iterator[str]] | None = None  # tells one answer while it comes


def run(
    path: Path,
    groups: Iterable[Iterable[str]],
    given: Mapping[str, Any],
    *,
    as_json: bool = False,
    at_once: bool = False,
) -> None:
    """Answer lines and print the answers. The lines of a group may be answered together; the next may be yet to come.

    `given` are the options of the command line that were given; `at_once` answers each line by itself.
    """
    asking = prepare(path, given, as_json=as_json)
    surface, options, printed = asking.surface, asking.options, 0
    together = 1 if at_once else surface.together
    for line, answer in _answered(asking, groups, together, stream=not as_json):
        if as_json:
            shown = [json.dumps({"input": line, "answers": surface.to_json(answer)}, ensure_ascii=False)]
            print(*shown, sep="\n", flush=True)
            continue
        for text in [answer] if isinstance(answer, Iterator) else surface.lines(answer, options):
            if printed and surface.between is not None:
                print(surface.between)
            for piece in text if isinstance(text, Iterator) else [text]:
                print(piece, end="", flush=True)
            print(flush=True)
            printed += 1


def prepare(path: Path, given: Mapping[str, Any], *, as_json: bool = False) -> Asking:
    """Check the options against the task, and choose the engine."""
    directory = ModelDirectory(path)
    tables = directory.tables()
    surface = tasks.surface(_task(tables, directory))
    surface.accept(given)
    options = _options(tables, given, as_json=as_json)
    wanted: EngineName = given.get("runtime", "auto")
    compute_type: ComputeType = given.get("compute_type", "float32")
    found = without_torch(directory, surface, options, wanted=wanted, compute_type=compute_type)
    if not isinstance(found, str):
        return Asking(surface, options, found)
    from regard.api.loading import load

    model = load(path, why=found)
    streams = model.streams and options.decoding.n_best == 1
    return Asking(surface, options, model, model.pieces if streams else None)


def _answered(
    asking: Asking, groups: Iterable[Iterable[str]], together: int, *, stream: bool
) -> Iterator[tuple[str, Any]]:
    """Each line with its answer, or with the pieces of its answer as they come."""
    for group in groups:
        lines, kept = tee(group)
        inputs = map(asking.surface.parse, lines)
        if stream and asking.pieces is not None:
            for line, each in zip(kept, inputs, strict=True):
                yield line, asking.pieces(each, asking.options)
        else:
            yield from zip(kept, asking.engine.answer_all(inputs, asking.options, together=together), strict=False)


def _task(tables: Mapping[str, Any], directory: ModelDirectory) -> str:
    name = tables.get("task")
    if not isinstance(name, str) or name not in tasks.TASKS:
        raise RegardError(
            f"{directory.path}: recipe.toml names no task that regard knows; copy the model directory again"
        )
    return name


def _options(tables: Mapping[str, Any], given: Mapping[str, Any], *, as_json: bool) -> RunOptions:
    """The [decoding] of a recipe with what was given."""
    changes = {name: value for name, value in given.items() if name not in MARKS}
    stored = tables.get("decoding", {})
    settings = changed(stored, changes) if isinstance(stored, dict) else stored
    decoding = check(DecodingConfig, settings, where="decoding")
    return RunOptions(
        decoding=decoding,
        prefix=given.get("prefix"),
        stop=tuple(given.get("stop", ())),
        alignment=bool(given.get("alignment")),
        scores=as_json or decoding.n_best > 1,
        tokens=as_json,
    )
