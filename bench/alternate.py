"""Systems in turn, in one run: what disturbs the machine disturbs them alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.worker import PeerError, System, Worker

LIMIT = System("matrix products", "regard_matmul")


class Field:
    """Workers that are ready to run. A peer that fails is left out from then on, and `notes` say why."""

    def __init__(self, workers: list[Worker], versions: dict[str, dict[str, str]], notes: list[str]) -> None:
        self.workers = workers
        self.versions = versions
        self.notes = notes

    def repeat(
        self, repeats: int, *, without: Sequence[System] = (), **settings: Any
    ) -> dict[str, list[dict[str, Any]]]:
        """Every system's answers, one a repeat, but for some that cannot do it; each repeat begins with another one."""
        asked = [worker for worker in self.workers if worker.system not in without]
        answers: dict[str, list[dict[str, Any]]] = {worker.system.name: [] for worker in asked}
        for number in range(repeats):
            turn = number % max(len(asked), 1)
            for worker in [each for each in asked[turn:] + asked[:turn] if each in self.workers]:
                name = worker.system.name
                try:
                    answers[name].append(worker.ask("run", **settings))
                except PeerError as error:
                    self._leave_out(worker, str(error))
                    answers.pop(name)
                _say(f"repeat {number + 1} of {repeats}: {name}")
        _say("")
        return answers

    def _leave_out(self, worker: Worker, reason: str) -> None:
        if worker.system.ours:
            raise PeerError(f"{worker.system.name}: {reason}")
        self.workers.remove(worker)
        self.notes.append(f"{worker.system.name} did not run: {reason}")


@contextmanager
def ready(
    systems: Sequence[System], settings: Mapping[str, Any], *, threads: int, limit: bool = True
) -> Iterator[Field]:
    """The systems' processes, each prepared with the settings of all and its own; and one that measures the limit."""
    field = Field([], {}, [])
    with ExitStack() as stack:
        for system in [*systems, *([LIMIT] if limit else [])]:
            _say(f"preparing {system.name}")
            worker = stack.enter_context(Worker(system, threads=threads))
            try:
                reply = worker.ask("prepare", **{**settings, "threads": threads, **system.settings})
            except PeerError as error:
                if system.ours:
                    raise PeerError(f"{system.name}: {error}") from None
                field.notes.append(f"{system.name} did not start: {error}")
                continue
            field.versions[system.name] = reply["versions"]
            field.workers.append(worker)
        yield field


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{what}", end="", file=sys.stderr, flush=True)
