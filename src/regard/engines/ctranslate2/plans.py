"""How many workers, of how many threads each, in which precision: measured once on a machine, then remembered.

A single text is answered by one thread, and a few by as many workers as there are: there is nothing to measure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from regard import durable
from regard.data.whole import read_bytes
from regard.errors import RegardError

ComputeType = Literal["float32", "int8", "auto"]
Precision = Literal["measured", "float32", "int8", "auto"]
"""What may be asked for: a compute type, or the one that `regard bench` has measured for a model (precision.py)."""

MANY = 512  # fewer lines than these do not pay for a measurement, which takes as long as a few hundred
ROUNDS = 3  # the first also warms up
NOTE = "plans.json"


@dataclass(frozen=True)
class Plan:
    """Workers that translate at the same time, the threads of each, and the precision of the products."""

    compute_type: str
    workers: int
    threads: int


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def plan(
    lines: int, *, compute_type: ComputeType, beam: int, kept_in: Path | None, seconds: Callable[[Plan], float]
) -> Plan:
    """The plan for so many lines; `seconds` measures one, and what was best is kept in a directory, if there is one.

    "auto" takes float32 until there were many lines to measure by.
    """
    candidates = plans(compute_type, cores())
    key = f"{cores()} cores, {compute_type}, {'beam' if beam > 1 else 'greedy'}"
    known = _remembered(kept_in, key, candidates)
    if lines < MANY:
        precision = candidates[0].compute_type if known is None else known.compute_type
        return Plan(precision, workers=min(lines, cores()), threads=1)
    if known is not None:
        return known
    best = candidates[0] if len(candidates) == 1 else _quickest(candidates, seconds)
    _remember(kept_in, key, best)
    return best


def outgrown(chosen: Plan, lines: int, *, by: int) -> bool:
    """Whether a plan that was chosen for so many lines is too small for more that have come."""
    return lines < MANY and (by >= MANY or min(by, cores()) > chosen.workers)


def _quickest(candidates: Sequence[Plan], seconds: Callable[[Plan], float]) -> Plan:
    """The candidate with the fastest of several rounds; all take turns, so that a disturbance hits no candidate
    alone."""
    rounds = [[seconds(each) for each in candidates] for _ in range(ROUNDS)]
    times = {each: min(taken) for each, *taken in zip(candidates, *rounds, strict=True)}
    return min(candidates, key=times.__getitem__)


def plans(compute_type: ComputeType, cores: int) -> list[Plan]:
    """The plans worth trying. Several threads in one worker are tried in float32 alone: in int8 they wait for each
    other."""
    precisions = ["float32", "int8"] if compute_type == "auto" else [compute_type]
    alone = [Plan(precision, workers=cores, threads=1) for precision in precisions]
    return alone + ([Plan("float32", workers=1, threads=cores)] if cores > 1 and "float32" in precisions else [])


def _remembered(directory: Path | None, key: str, candidates: Sequence[Plan]) -> Plan | None:
    """The best plan found before; None if the note cannot be read or names a plan that is no candidate."""
    if directory is None:
        return None
    with suppress(TypeError, KeyError):
        found = Plan(**_notes(directory)[key])
        return found if found in candidates else None
    return None


def _notes(directory: Path) -> dict[str, Any]:
    """The notes of a directory; none where they cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(read_bytes(directory / NOTE))
        return found if isinstance(found, dict) else {}
    return {}


def _remember(directory: Path | None, key: str, best: Plan) -> None:
    if directory is None:
        return
    notes = {**_notes(directory), key: asdict(best)}
    with suppress(RegardError):  # a place that can no longer be written: then it is measured again
        durable.write_file(directory / NOTE, json.dumps(notes, indent=2).encode())
