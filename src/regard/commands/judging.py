"""Faster forms of answering are compared with float32 when a model is exported, or first answers much: once for each
kind of machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from regard.directory import ModelDirectory
from regard.durable import is_file
from regard.engines.ctranslate2.precision import kept, not_compared


def judge_once(path: Path, *, seconds: float) -> None:
    """Compare them unless this was done, or the validation data of the recipe is not there; at most some seconds."""
    directory = ModelDirectory(path)
    if kept(directory) is not None or not _has_validation_data(directory):
        return
    _tell(
        "comparing faster forms of answering with float32 on the validation data, once and for at most "
        f"{seconds:.0f} s (Ctrl-C ends it)"
    )
    from regard.api.judging import judge  # which imports torch

    try:
        found = judge(path, seconds=seconds)
    except KeyboardInterrupt:
        found = "it was interrupted; regard bench does it"
    _tell(not_compared(found) if isinstance(found, str) else str(found))


def _has_validation_data(directory: ModelDirectory) -> bool:
    """Whether the recipe names files to validate by, and all of them are there."""
    data = directory.tables().get("data")
    names = list(_texts(data.get("valid"))) if isinstance(data, dict) else []
    return bool(names) and all(map(is_file, names))


def _texts(value: object) -> Iterator[str]:
    """The names in a name, a list of names, or a table of names."""
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(each)


def _tell(text: str) -> None:
    print(f"regard: {text}", file=sys.stderr, flush=True)
