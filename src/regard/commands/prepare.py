"""`regard prepare`: read, filter and tokenise the data of a recipe before it is trained."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from regard.api.preparing import prepare as prepare_data
from regard.api.reading import Data
from regard.errors import RegardError

EVERY = 10.0  # seconds between two lines where there is no terminal


def prepare(recipe: str, *, out: Path | None, changes: Sequence[str], processes: int | None, as_json: bool) -> None:
    """Prepare the data and print what was read, and how fast."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = processes or cores
    if processes > 4 * cores:
        raise RegardError(f"--processes {processes} is more than this machine can use; try {cores}")
    console, began = Console(stderr=True, highlight=False), time.monotonic()
    with _bar(console) as bar:
        quiet = Console(stderr=True, quiet=True)
        path, data = prepare_data(recipe, out=out, changes=changes, processes=processes, bar=bar, console=quiet)
    _show(path, data, bar, seconds=time.monotonic() - began, processes=processes, as_json=as_json)


@dataclass
class Read:
    """How much of something was read, since when."""

    unit: str
    line: TaskID
    began: float = field(default_factory=time.monotonic)
    began_cpu: float = field(default_factory=time.process_time)
    count: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of this process
    told: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        return self.count / max(self.seconds, 1e-9)


@dataclass
class Reading:
    """Shows how much was read: a bar in a terminal, elsewhere a line every few seconds."""

    console: Console
    shown: Progress
    read: dict[str, Read] = field(default_factory=dict)

    def __call__(self, what: str, count: int, unit: str, share: float) -> None:
        if what not in self.read:
            self.read[what] = Read(unit, self.shown.add_task(what, total=1.0, figures=""))
        each, now = self.read[what], time.monotonic()
        each.count, each.seconds, each.cpu_seconds = count, now - each.began, time.process_time() - each.began_cpu
        figures = f"{count:,} {unit}, {each.rate:,.0f} a second"
        self.shown.update(each.line, completed=share, figures=figures)
        if not self.console.is_terminal and now - each.told > EVERY:
            each.told = now
            self.console.out(f"reading {what}: {share:.0%}, {figures}")


@contextmanager
def _bar(console: Console) -> Iterator[Reading]:
    figures = TextColumn("{task.fields[figures]}")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), figures, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        yield Reading(console, shown)


def _show(path: Path, data: Data, bar: Reading, *, seconds: float, processes: int, as_json: bool) -> None:
    if as_json:
        read = {
            what: {
                "count": each.count,
                "unit": each.unit,
                "seconds": each.seconds,
                "cpu_seconds": each.cpu_seconds,
                "rate": each.rate,
            }
            for what, each in bar.read.items()
        }
        found = {
            "directory": str(path),
            "train": data.train.describe(),
            "valid": data.valid.describe(),
            "vocabulary": data.vocabularies,
            "read": read,
            "processes": processes,
            "seconds": seconds,
        }
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return
    print("\n".join(data.describe()))
    for what, each in bar.read.items():
        print(f"{what}: {each.rate:,.0f} {each.unit} a second, {processes} processes")
    print(f"the data is prepared in {path}, in {seconds:.1f} s; train with the same recipe, changes and directory")
