"""A system that is measured, and the process it runs in."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from bench import peers

# glibc keeps freed memory for the next step, as regard asks it to when it trains
TUNED_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": str(64 << 20),
}


@dataclass(frozen=True)
class System:
    """One line of a table: a peer's script with its settings. `judged` systems count when the best peer is sought."""

    name: str
    script: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    judged: bool = True

    @property
    def ours(self) -> bool:
        return self.script.startswith(f"{peers.OURS}_")


class PeerError(RuntimeError):
    """A worker could not do what it was asked."""


class Worker:
    """The process of a system, asked by JSON lines; within its `with`."""

    def __init__(self, system: System, *, threads: int, command: list[str] | None = None) -> None:
        self.system = system
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            command or command_of(system.script),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=surroundings(system, threads=threads),
        )

    def ask(self, do: str, **settings: Any) -> dict[str, Any]:
        """The answer to one question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **settings}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(self._last_words()) from None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(self._last_words())
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise PeerError(reply["error"])
        return reply

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        said = self._log.read().strip().splitlines()
        return f"ended with code {self._process.returncode}: {said[-1] if said else 'no word'}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


def command_of(script: str) -> list[str]:
    """The script in its own environment."""
    return [str(peers.python(peers.environment_of(script))), str(peers.script(script))]


def surroundings(system: System, *, threads: int) -> dict[str, str]:
    """The environment variables of a system's process: as many threads for all, the network for none."""
    inherited = {name: value for name, value in os.environ.items() if system.ours or name != "PYTHONPATH"}
    number = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")}
    return {**inherited, **number, "HF_HUB_OFFLINE": "1", "CT2_VERBOSE": "-1", **system.environment}


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for what the systems share in one run."""
    return tempfile.TemporaryDirectory(prefix="regard-bench-")
