"""Peak resident memory of a whole process, learning and answering: regard beside what people would use instead.

    python -m bench memory --data FOLDER

The work is that of train-tiny and of decode; each repeat is a new process, since a peak is never taken back.
Packages that a system imports count: their memory is needed to use it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import decoding_speed, options, training_speed
from bench.alternate import ready
from bench.comparison import chosen, conclude, rows
from bench.cost import TINY
from bench.results import Table
from bench.worker import System, scratch

STEPS, SENTENCES, TOGETHER = 8, 512, 64


def main(arguments: list[str]) -> None:
    given = options.read(options.parser("memory", __doc__), arguments)
    steps, sentences, together = (1, 8, 8) if given.quick else (STEPS, SENTENCES, TOGETHER)
    learners = [system for system in [*training_speed.OURS, *training_speed.TINY_PEERS] if not system.environment]
    notes: list[str] = []
    versions: dict[str, dict[str, str]] = {}
    with scratch() as folder:
        settings, _ = training_speed.prepare(Path(folder), given, TINY, count=steps)
        tables = [
            _table("learning, batches of 4096 tokens", learners, settings, {"steps": steps}, given, notes, versions)
        ]
    with scratch() as folder:
        settings, _, _ = decoding_speed.prepare(Path(folder), given.data, None, sentences)
        bounds = decoding_speed.lengths_of(None)
        for name, beam in decoding_speed.BEAMS.items():
            asked = {"sources": settings["sources"], "together": together, "beam": beam, **bounds}
            title = f"answering, {name}, {together} at a time"
            tables.append(_table(title, decoding_speed.SYSTEMS, settings, asked, given, notes, versions))
    about = "The most memory that a process ever had resident, in megabytes; less is better."
    conclude("memory", about, given, tables, versions=versions, notes=list(dict.fromkeys(notes)))


def _table(
    title: str,
    systems: Sequence[System],
    settings: Mapping[str, Any],
    asked: Mapping[str, Any],
    given: argparse.Namespace,
    notes: list[str],
    versions: dict[str, dict[str, str]],
) -> Table:
    wanted = chosen(systems, given)
    answers: dict[str, list[dict[str, Any]]] = {}
    for _ in range(given.repeats):
        for system in wanted:
            with ready([system], settings, threads=given.threads, limit=False) as field:
                for name, found in field.repeat(1, **asked).items():
                    answers.setdefault(name, []).extend(found)
            notes += field.notes
            versions |= field.versions
    complete = {name: found for name, found in answers.items() if len(found) == given.repeats}
    return Table(title, "MB", rows(wanted, complete, lambda answer: answer["peak_mb"]), higher=False)
