"""`regard train --processes N`: processes on this machine that train one model together.

A process that is killed takes the others with it, because these would wait for it; then all start again from the last
checkpoint. Signals are passed on. On several machines `torchrun -m regard train …` does the same.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import IO

from regard.errors import RegardError

RESTARTS = 20
GRACE = 40.0  # seconds in which a process may save what it has after a signal
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
FINAL = (2, 130)  # exit codes after which starting again would change nothing, or was not asked for
AGAIN = 75  # the exit code that asks for a start, after a signal or where one of the processes lacks memory


def train_together(arguments: Sequence[str], count: int) -> int:
    """Run `regard train` with these arguments in `count` processes. → the exit code"""
    if count > 4 * (os.cpu_count() or 1):
        raise RegardError(f"--processes {count} is more than this machine can use; try {os.cpu_count()}")
    for restart in range(RESTARTS + 1):
        with _Together(arguments, count) as processes:
            code = processes.wait()
        if code == 0 or code in FINAL or processes.asked:
            return code
        if restart < RESTARTS:
            print(
                f"regard: a process ended with {_said(code)}; all start again from the last checkpoint", file=sys.stderr
            )
    print(f"regard: training failed {RESTARTS} times in a row", file=sys.stderr)
    return code


class _Together:
    """The processes, from their start to their end."""

    def __init__(self, arguments: Sequence[str], count: int) -> None:
        self.arguments, self.count, self.asked = arguments, count, False
        self.processes: list[subprocess.Popen[bytes]] = []
        self.errors: list[IO[bytes]] = []

    def __enter__(self) -> _Together:
        port = _free_port()
        threads = max((os.cpu_count() or 1) // self.count, 1)
        for rank in range(self.count):
            environment = {
                "OMP_NUM_THREADS": str(threads),
                "TORCH_CPP_LOG_LEVEL": "ERROR",
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(self.count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
            said = tempfile.TemporaryFile() if rank else None
            self.errors += [said] if said else []
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "regard", "train", *self.arguments],
                    env=environment,
                    stdout=subprocess.DEVNULL if rank else None,
                    stderr=said,
                )
            )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for file in self.errors:
            file.close()

    def wait(self) -> int:
        """Wait until all have ended, or one has failed. → 0, or the exit code of the one that failed first"""
        with self._passing_on():
            while True:
                codes = [process.poll() for process in self.processes]
                failed = [rank for rank, code in enumerate(codes) if code]
                if failed:
                    return self._first(failed)
                if all(code == 0 for code in codes):
                    return 0
                time.sleep(0.05)

    def _first(self, failed: Sequence[int]) -> int:
        """The exit code of a process that failed, after the others have had time to end by themselves."""
        code = self.processes[failed[0]].wait()
        if code in (*FINAL, AGAIN):
            until = time.monotonic() + GRACE
            while time.monotonic() < until and any(process.poll() is None for process in self.processes):
                time.sleep(0.05)
        if code > 0 and failed[0] > 0:
            file = self.errors[failed[0] - 1]
            file.seek(0)
            sys.stderr.write(file.read().decode(errors="replace"))
        return code

    @contextmanager
    def _passing_on(self) -> Iterator[None]:
        """Within, signals that ask this process to stop go to all of them."""

        def pass_on(number: int, _frame: FrameType | None) -> None:
            self.asked = True
            for process in self.processes:
                process.send_signal(number)

        before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _said(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
