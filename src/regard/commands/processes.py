"""`regard train --processes N`: processes on this machine that train one model together.

A process that is killed takes the others with it, because these would wait for it; then all start again from the last
checkpoint. Signals are passed on. On several machines `torchrun -m regard train …` does the same.

Where the system can fork, all are forked from one process that has loaded torch.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from regard.errors import RegardError

RESTARTS = 20  # in a row, each after less than `LASTING` seconds
LASTING = 600.0
GRACE = 40.0  # seconds in which a process may save what it has after a signal
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
FINAL = (2, 130)  # exit codes after which starting again would change nothing, or was not asked for
AGAIN = 75  # the exit code that asks for a start, after a signal or where one of the processes lacks memory


def train_together(arguments: Sequence[str], count: int) -> int:
    """Run `regard train` with these arguments in `count` processes. → the exit code"""
    if count > 4 * (os.cpu_count() or 1):
        raise RegardError(f"--processes {count} is more than this machine can use; try {os.cpu_count()}")
    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // count, 1)))  # read when torch is loaded
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    failures = 0
    while True:
        begin = time.monotonic()
        with _Together(arguments, count) as processes:
            code = processes.wait()
        if code == 0 or code in FINAL or processes.asked:
            return code
        failures = 1 if time.monotonic() - begin > LASTING else failures + 1
        if failures > RESTARTS:
            print(f"regard: training failed {failures} times in a row", file=sys.stderr)
            return code
        print(f"regard: a process ended with {_said(code)}; all start again from the last checkpoint", file=sys.stderr)


class _Together:
    """The processes, from their start to their end."""

    def __init__(self, arguments: Sequence[str], count: int) -> None:
        self.arguments, self.count, self.asked = arguments, count, False
        self.processes: list[BaseProcess] = []
        self.folder = tempfile.TemporaryDirectory()  # where all but the first one write what they say about errors

    def __enter__(self) -> _Together:
        port = _free_port()
        for rank in range(self.count):
            surroundings = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(self.count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
            said = self._errors(rank) if rank else None
            self.processes.append(_starting().Process(target=_train, args=(self.arguments, surroundings, said)))
            self.processes[-1].start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.folder.cleanup()

    def _errors(self, rank: int) -> Path:
        return Path(self.folder.name) / f"{rank}.txt"

    def wait(self) -> int:
        """Wait until all have ended, or one has failed. → 0, or the exit code of the one that failed first"""
        with self._passing_on():
            while True:
                codes = [process.exitcode for process in self.processes]
                failed = [rank for rank, code in enumerate(codes) if code]
                if failed:
                    return self._first(failed)
                if all(code == 0 for code in codes):
                    return 0
                time.sleep(0.05)

    def _first(self, failed: Sequence[int]) -> int:
        """The exit code of a process that failed, after the others have had time to end by themselves."""
        code = self.processes[failed[0]].exitcode or 0
        if code in (*FINAL, AGAIN):
            until = time.monotonic() + GRACE
            while time.monotonic() < until and any(process.is_alive() for process in self.processes):
                time.sleep(0.05)
        if code > 0 and failed[0] > 0:
            sys.stderr.write(self._errors(failed[0]).read_text(errors="replace"))
        return code

    @contextmanager
    def _passing_on(self) -> Iterator[None]:
        """Within, signals that ask this process to stop go to all of them."""

        def pass_on(number: int, _frame: FrameType | None) -> None:
            self.asked = True
            for process in self.processes:
                if process.is_alive() and process.pid is not None:
                    os.kill(process.pid, number)

        before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _starting() -> SpawnContext | ForkServerContext:
    """How processes are started: as forks of one that has loaded torch, where there are forks."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["regard.commands.preloaded"])
    return context


def _train(arguments: Sequence[str], surroundings: dict[str, str], errors: Path | None) -> None:
    """`regard train` as one of several processes. All but the first one write errors into a file, and nothing else."""
    for number in PASSED_ON:  # which the process that this one was forked from does not heed
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.environ.update(surroundings)
    if errors is not None:
        for path, stream in ((Path(os.devnull), 1), (errors, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), stream)
    sys.argv = ["regard", "train", *arguments]
    runpy.run_module("regard", run_name="__main__")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _said(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
