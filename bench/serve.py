"""`regard serve` under load, beside the same model offline, on the same cores.

    python -m bench serve --model DIR --texts FILE [--clients 64] [--requests 20000] [--grow 100000]
    python -m bench serve-fuzz --model DIR [--requests 100000]

singles   so many clients, one sentence in each request
lists     four clients, 64 sentences in each request
plain     the same lists at a server of one CTranslate2 call for each sentence, as LibreTranslate has it
offline   the same sentences by the same engine in one process, as many workers as cores
start     from the command to the first answer of a model that was converted before
growth    the memory of all processes of the server, after a warm-up and after --grow requests

Every answer is compared with the offline one. The load generator is a process of its own on the same cores; its share
of a core is stated.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from regard.commands.run import prepare
from regard.engines.ctranslate2.plans import cores
from regard.errors import RegardError

LIST = 64  # sentences in a list
LISTING = 4  # clients that send lists
PLAIN = 8  # times fewer lists for the server that takes one sentence at a time
WARM = 2000  # requests before memory is compared
ROUNDS = 3  # of the offline measurement, of which the best counts


@dataclass
class Server:
    """A running server, and how it is asked for translations: as LibreTranslate is, if it has such a path."""

    process: subprocess.Popen[str]
    port: int
    path: str
    languages: dict[str, str]

    def body(self, texts: Sequence[str] | str) -> str:
        if self.path == "/translate":
            return json.dumps({"q": texts, **self.languages})
        return json.dumps({"input" if isinstance(texts, str) else "inputs": texts})

    def load(self, bodies: list[tuple[str, list[str]]], *, clients: int, requests: int) -> dict[str, Any]:
        job = {"port": self.port, "path": self.path, "clients": clients, "requests": requests, "bodies": bodies}
        command = [sys.executable, "-m", "bench.serve_load"]
        done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def memory(self) -> int:
        """Bytes that the server and its workers hold."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        status = [Path(f"/proc/{number}/status").read_text() for number in (self.process.pid, *children)]
        return sum(int(re.findall(r"VmRSS:\s+(\d+) kB", each)[0]) for each in status) << 10


@contextmanager
def serving(model: Path, *, workers: int, name: str = "model", more: Sequence[str] = ()) -> Iterator[Server]:
    command = [sys.executable, "-m", "regard", "serve", f"{name}={model}", "--port", "0", "--workers", str(workers)]
    process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://127.0.0.1:(\d+)", process.stdout.readline())
        if found is None:
            raise RegardError("the server did not start; see above")
        url = found[0]
        languages: dict[str, str] = {}
        if "/translate" in httpx.get(f"{url}/openapi.json", timeout=60).json()["paths"]:
            for first in httpx.get(f"{url}/languages", timeout=60).json()[:1]:
                languages = {"source": first["code"], "target": next(iter(first["targets"]))}
        path = "/translate" if languages else f"/run/{name}"
        yield Server(process, int(found[1]), path, languages)
    finally:
        process.terminate()
        process.communicate(timeout=60)


@contextmanager
def plain(model: Path, *, threads: int) -> Iterator[Server]:
    """A server of one CTranslate2 call for each sentence, by so many threads."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.serve_plain", str(model), str(port), str(threads)]
    process = subprocess.Popen(command, text=True)
    try:
        while not _answers(port):
            if process.poll() is not None:
                raise RegardError("the plain server did not start; see above")
            time.sleep(0.1)
        yield Server(process, port, "/translate", {})
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=60).is_success
    except httpx.TransportError:
        return False


def offline(model: Path, texts: Sequence[str]) -> tuple[list[str], float]:
    """The answers, and sentences a second."""
    asking = prepare(model, {})
    list(asking.engine.answer_all(texts[:64], asking.options, together=1024))
    best = 0.0
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        found = list(asking.engine.answer_all(texts, asking.options, together=1024))
        best = max(best, len(texts) / (time.perf_counter() - begun))
    return [each[0].text for each in found], best


def first_answer(model: Path, text: str, *, workers: int) -> float:
    """Seconds from the command to the first answer."""
    begun = time.perf_counter()
    with serving(model, workers=workers) as server:
        httpx.post(f"http://127.0.0.1:{server.port}/run/model", json={"input": text}, timeout=60).raise_for_status()
        return time.perf_counter() - begun


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a model directory that translates")
    parser.add_argument("--texts", type=Path, required=True, help="a file of sentences, one on each line")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=20_000, help="of one sentence each")
    parser.add_argument("--grow", type=int, default=100_000, help="requests over which memory is watched; 0: none")
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    texts = [line for line in given.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    found = measure(given, texts)
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        show(found, Console(width=max(Console().width, 120)))


def measure(given: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    """Everything, as numbers."""
    whole = [*texts, *texts[: -len(texts) % LIST]]
    answers, speed = offline(given.model, whole)
    start = statistics.median(first_answer(given.model, texts[0], workers=given.workers) for _ in range(3))
    with serving(given.model, workers=given.workers) as server:
        single = [(server.body(text), [answer]) for text, answer in zip(whole, answers, strict=True)]
        listed = [(server.body(whole[at : at + LIST]), answers[at : at + LIST]) for at in range(0, len(whole), LIST)]
        server.load(single, clients=given.clients, requests=min(WARM, given.requests))
        singles = server.load(single, clients=given.clients, requests=given.requests)
        lists = server.load(listed, clients=LISTING, requests=max(LISTING, given.requests // LIST))
        growth = grown(server, single, given)
    with plain(given.model, threads=given.workers) as other:
        listed = [(other.body(whole[at : at + LIST]), answers[at : at + LIST]) for at in range(0, len(whole), LIST)]
        some = max(LISTING, given.requests // LIST // PLAIN)
        other.load(listed, clients=LISTING, requests=LISTING)
        one_by_one = other.load(listed, clients=LISTING, requests=some)
    return {
        "path": server.path,
        "workers": given.workers,
        "offline": speed,
        "start": start,
        "singles": summary(singles, given.requests),
        "lists": summary(lists, LIST * max(LISTING, given.requests // LIST)),
        "plain": summary(one_by_one, LIST * some),
        "growth": growth,
    }


def grown(server: Server, single: list[tuple[str, list[str]]], given: argparse.Namespace) -> dict[str, float] | None:
    if not given.grow:
        return None
    before = server.memory()
    server.load(single, clients=given.clients, requests=given.grow)
    after = server.memory()
    return {"before_mb": before / 1e6, "after_mb": after / 1e6, "share": after / before - 1}


def summary(found: dict[str, Any], sentences: int) -> dict[str, Any]:
    latencies = found["latencies"]
    median = statistics.median(latencies)
    return {
        "sentences_per_second": sentences / found["seconds"],
        "requests_per_second": len(latencies) / found["seconds"],
        "median_ms": 1000 * median,
        "p99_ms": 1000 * latencies[int(0.99 * (len(latencies) - 1))],
        "failed": found["failed"],
        "errors": found["errors"],
        "different": found["different"],
        "load_generator_cores": found["cpu"],
    }


def show(found: dict[str, Any], console: Console) -> None:
    table = Table("", "sentences/s", "of offline", "requests/s", "median ms", "p99 ms", "failed", "different", "client")
    table.add_row("offline", f"{found['offline']:.0f}", "100 %")
    for name in ("singles", "lists", "plain"):
        row = found[name]
        table.add_row(
            name,
            f"{row['sentences_per_second']:.0f}",
            f"{row['sentences_per_second'] / found['offline']:.0%}",
            f"{row['requests_per_second']:.0f}",
            f"{row['median_ms']:.1f}",
            f"{row['p99_ms']:.1f}",
            str(row["failed"]),
            str(row["different"]),
            f"{row['load_generator_cores']:.2f} cores",
        )
    console.print(table)
    ratio = found["lists"]["sentences_per_second"] / found["plain"]["sentences_per_second"]
    console.print(f"lists: {ratio:.1f} × the server of one call for each sentence")
    console.print(f"{found['path']}, {found['workers']} workers; first answer after {found['start']:.2f} s")
    if found["growth"] is not None:
        grew = found["growth"]
        console.print(f"memory {grew['before_mb']:.0f} → {grew['after_mb']:.0f} MB ({grew['share']:+.2%})")


def fuzz(arguments: list[str]) -> None:
    """Requests that schemathesis generates from the server's own OpenAPI: none may be answered with a 5xx."""
    parser = argparse.ArgumentParser(prog="python -m bench serve-fuzz", description=fuzz.__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with serving(given.model, workers=1) as server:
        asked = fuzzed(server.port, given.requests, seed=given.seed)
    print(f"{asked:,} requests, none answered with a 5xx")


def fuzzed(port: int, requests: int, *, seed: int) -> int:
    """How many requests were made; one that was answered with a 5xx is a RegardError."""
    url = f"http://127.0.0.1:{port}"
    paths = httpx.get(f"{url}/openapi.json", timeout=60).json()["paths"]
    operations = [each for methods in paths.values() for each in methods.values()]
    varied = [each for each in operations if "requestBody" in each or "parameters" in each]
    each = max(1, requests // len(varied))
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--checks", "not_a_server_error"]
    command += ["--max-examples", str(each), "--seed", str(seed), "--phases", "fuzzing", "--continue-on-failure"]
    command += ["--no-color", "--warnings", "off", "--request-timeout", "60", "--generation-database", "none"]
    command += ["--suppress-health-check", "all"]
    before = _counted(url)
    with tempfile.TemporaryDirectory() as folder:  # where schemathesis keeps its notes
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    asked = _counted(url) - before
    if done.returncode:
        raise RegardError(f"{done.stdout}{done.stderr}")
    return asked


def _counted(url: str) -> int:
    """How many requests a server has answered."""
    lines = httpx.get(f"{url}/metrics", timeout=60).text.splitlines()
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("regard_requests_total{")))
