"""Real runs, killed again and again (SIGKILL, which nothing can catch), against the same runs left in peace.

    python -m bench kill [--kills 20] [--processes 1 2 3 4] [--distribution replicated sharded] [--recipe demo]
                         [--steps 300] [--seed 1] [--set KEY=VALUE]…

Every run is a `regard train` of its own. Of several processes a random one is killed, and `regard train --processes`
starts all again; a process that is alone is started again from here. The kills are divided among the numbers of
processes, with as many runs of each as the kills need. Each run must end with the weights of a run of the same number
of processes that was not disturbed, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from regard.errors import RegardError

LONGEST = 5.0  # seconds between two kills at most, or a sixth of the run if that is more


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench kill", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--kills", type=int, default=20, help="of all runs together")
    parser.add_argument("--processes", type=int, nargs="+", default=[1], help="numbers of processes to try")
    parser.add_argument("--distribution", nargs="+", default=["replicated"], choices=["replicated", "sharded"])
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    ways = [pair for pair in product(given.processes, given.distribution) if pair != (1, "sharded")]
    generator = random.Random(given.seed)
    same = True
    for number, (processes, kind) in enumerate(ways):
        kills = given.kills * (number + 1) // len(ways) - given.kills * number // len(ways)
        same &= _survives(_Way(given.recipe, given.steps, processes, kind, tuple(given.set)), kills, generator)
    if not same:
        sys.exit(1)


@dataclass(frozen=True)
class _Way:
    """How a run is made."""

    recipe: str
    steps: int
    processes: int
    kind: str
    changes: Sequence[str]

    def __str__(self) -> str:
        return f"{self.processes} processes, {self.kind}" if self.processes > 1 else "1 process"

    def command(self, out: Path) -> list[str]:
        changes = [
            f"training.steps={self.steps}",
            "training.checkpoint_every=10",
            "training.validate_every=50",
            f"training.distribution.kind={self.kind}",
            *self.changes,
        ]
        words = [sys.executable, "-m", "regard.cli", "train", self.recipe, "-o", str(out)]
        words += [part for change in changes for part in ("--set", change)]
        return [*words, "--processes", str(self.processes)] if self.processes > 1 else words


def _survives(way: _Way, kills: int, generator: random.Random) -> bool:
    """Kill runs until there were so many kills; True if every run ended with the weights of one left in peace."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        begin = time.monotonic()
        subprocess.run(way.command(whole), check=True, capture_output=True)
        seconds = time.monotonic() - begin
        done = runs = 0
        while done < kills:
            out = Path(folder) / f"killed-{runs}"
            killed = _kill_often(way, out, kills - done, generator, longest=max(seconds / 6, LONGEST))
            done, runs = done + killed, runs + 1
            if _weights(out) != _weights(whole):
                print(f"{way}: after {killed} kills in one run the weights are DIFFERENT")
                return False
            print(f"{way}: {done} of {kills} kills, {runs} runs of {seconds:.0f} seconds: the weights are the same")
    return True


def _kill_often(way: _Way, out: Path, kills: int, generator: random.Random, *, longest: float) -> int:
    """Start a run, kill a process of it at random moments, start it again where it does not do so by itself, until it
    ends. → how often it was killed"""
    killed = 0
    while True:
        before = killed
        with subprocess.Popen(way.command(out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            try:
                while killed < kills and not _ended(run, generator.uniform(0, longest)):
                    workers = [run.pid] if way.processes == 1 else list(_workers(run.pid))
                    if workers:
                        killed += _kill(generator.choice(workers))
                _, said = run.communicate()
            finally:
                run.kill()
        if run.returncode == 0:
            return killed
        if killed == before and run.returncode > 0:
            raise RegardError(f"a run that was killed does not go on: {said.decode(errors='replace')[-500:]}")


def _ended(run: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a run ends within so many seconds. What it says is not waited for: it is little."""
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _workers(process: int) -> Iterator[int]:
    """The processes that learn, which were forked from one that `process` has started."""
    for child in _children(process):
        yield from _children(child)


def _children(process: int) -> Iterator[int]:
    try:
        yield from map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
    except FileNotFoundError:
        return


def _kill(process: int) -> bool:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _weights(directory: Path) -> bytes:
    return (directory / "weights.safetensors").read_bytes()
