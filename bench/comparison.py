"""From systems and settings to a result: what the works have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from bench import machine, tables
from bench.alternate import LIMIT
from bench.results import Result, Row, Table
from bench.worker import System

Answers = Mapping[str, Sequence[Mapping[str, Any]]]


def chosen(systems: Sequence[System], given: argparse.Namespace) -> list[System]:
    """Ours always, and of the peers those that `--only` names, if it names any."""
    return [system for system in systems if system.ours or named(system.name, given)]


def named(peer: str, given: argparse.Namespace) -> bool:
    """Whether `--only` names the peer, if it names any."""
    return not given.only or any(word.lower() in peer.lower() for word in given.only)


def rows(systems: Sequence[System], answers: Answers, figure: Callable[[Mapping[str, Any]], float]) -> list[Row]:
    """A row for each system that ran to the end."""
    return [
        Row(system.name, [figure(answer) for answer in answers[system.name]], ours=system.ours, judged=system.judged)
        for system in systems
        if system.name in answers
    ]


def limits(*all_answers: Answers) -> dict[str, list[float]]:
    """GFLOP/s of matrix products by precision, over all repeats."""
    found = [answer for answers in all_answers for answer in answers.get(LIMIT.name, [])]
    return {name: [answer[name] for answer in found] for name in ("float32", "bfloat16") if found}


def conclude(
    work: str,
    about: str,
    given: argparse.Namespace,
    made: Sequence[Table],
    *,
    limits: Mapping[str, Sequence[float]] | None = None,
    versions: Mapping[str, Mapping[str, str]] | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """Print the result, and keep it unless the run was a quick one."""
    result = Result(
        work=work,
        about=about,
        command=given.command,
        date=machine.today(),
        machine=machine.describe(given.threads),
        tables=list(made),
        limits=limits or {},
        versions=versions or {},
        notes=list(notes),
    )
    if given.json:
        print(result.to_json(), end="")
    else:
        tables.show(result, Console())
    if not given.quick:
        result.save()
    return result
