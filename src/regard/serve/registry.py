"""The models of a server, by the names that requests call them. No request names a path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from pydantic import BaseModel

from regard.directory import WEIGHTS, ModelDirectory
from regard.errors import RegardError, listed, shown
from regard.serve.failures import ServeError


class Facts(BaseModel):
    """What a model's surface says of its task. A worker reads it: some surfaces stand beside code that needs torch."""

    task: str
    pipeline: str  # the name that Hugging Face's programs have for the task, such as "translation"
    answers: str
    example: str
    options: frozenset[str] = frozenset()
    files: bool = False  # whether `regard run` reads files; a request holds the file itself
    two_texts: bool = False
    streams: bool = False
    whole: int | None = None  # tokens of a sentence that are answered in one piece; None: the task splits it itself
    together: int = 0  # tokens of several sentences that are answered in one piece
    kind: str = ""
    languages: tuple[str, ...] = ()  # of source and target, where the recipe names them
    parameters: int = 0


@dataclass
class Entry:
    """One model: its directory, and what is known of the version in use."""

    name: str
    path: Path
    facts: Facts
    version: int = 1
    mark: str = ""  # of the files of this version

    @property
    def bytes(self) -> int:
        """The size of the weights."""
        try:
            return (self.path / WEIGHTS).stat().st_size
        except OSError:
            return 0


@dataclass
class Registry:
    """Models by name, in the order in which they were given; the first answers requests that name none."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def add(self, entry: Entry) -> None:
        self.entries[entry.name] = entry

    def find(self, name: str | None = None) -> Entry:
        """The model of this name; without one, the only or first one."""
        if name is None:
            return next(iter(self))
        if name not in self.entries:
            raise ServeError(
                404,
                "not_found",
                f"there is no model {shown(name, most=80)}; there are {listed(self.entries)}",
                field="model",
            )
        return self.entries[name]

    def doing(self, *pipelines: str) -> list[Entry]:
        """The models whose task is one of these pipelines."""
        return [entry for entry in self if entry.facts.pipeline in pipelines]


def named(paths: Iterable[str]) -> dict[str, Path]:
    """Names for model directories: NAME=DIR, or the name of the directory. A link is followed whenever a model is read,
    so that a new version may be one that the link points to later."""
    found: dict[str, Path] = {}
    for given in paths:
        name, _, path = given.rpartition("=") if not ModelDirectory(Path(given)).is_model else ("", "", given)
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - which would follow links
        name = name or whole.name
        if name in found:
            raise RegardError(f"two models are called {shown(name)}; name one of them otherwise: OTHER={path}")
        if not name or any(character in name for character in "/?#%\\") or not name.isprintable():
            raise RegardError(f"{shown(name)} cannot be the name of a model in an address; give NAME={path}")
        ModelDirectory(Path(path)).require()
        found[name] = whole
    return found


def mark_of(path: Path) -> str:
    """Changes when a file of a model directory is replaced."""
    try:
        stats = [(each.name, each.stat()) for each in sorted(path.iterdir()) if each.is_file()]
    except OSError as error:
        raise RegardError(f"{path} cannot be read ({error.strerror}); copy the model directory again") from None
    found = [(name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats]
    return blake2b(repr(found).encode(), digest_size=8).hexdigest()
