"""`regard serve` in a process of its own, on a free port, for as long as a `with` lasts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
PATIENCE = 120  # seconds for anything that a test waits for


@dataclass
class Running:
    """A server: its process, where it is, and a client for it."""

    process: subprocess.Popen[str]
    url: str
    client: httpx.Client

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def run(self, model: str, given: object, **options: object) -> Any:
        """What POST /run/{model} gives for one input, or for a list of them."""
        key = "inputs" if isinstance(given, list) else "input"
        response = self.client.post(f"/run/{model}", json={key: given, "options": options})
        assert response.status_code == 200, response.text
        return response.json()

    def workers(self) -> list[int]:
        """The ids of the worker processes."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(number) for number in found.split()]

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}(\{{|\s)", line))


@contextmanager
def serving(*arguments: str | Path, env: Mapping[str, str] | None = None, errors: str = "") -> Iterator[Running]:
    """Start `regard serve ARGUMENTS` on a free port; what it writes to standard error must match `errors`."""
    command = [sys.executable, "-m", "regard", "serve", "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        said = process.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found, f"{said}{process.stderr.read()}"
        with httpx.Client(base_url=found[0], timeout=PATIENCE) as client:
            yield Running(process, found[0], client)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=PATIENCE)
    assert re.fullmatch(errors, told, re.DOTALL), told


def offline(model: Path, *texts: str, options: tuple[str, ...] = ()) -> list[Any]:
    """What `regard run --json` prints."""
    command = [sys.executable, "-m", "regard", "run", "--json", *options, str(model), *texts]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return [json.loads(line) for line in found.stdout.splitlines()]


def in_a_thread(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. A browser's loop may run in this thread, so another one is taken."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def until(true: Any) -> None:
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
