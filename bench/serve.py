"""`regard serve` under load, beside the same model offline, on the same cores.

    python -m bench serve --model DIR --texts FILE [--clients 64] [--requests 20000] [--grow 100000]

64 clients send one sentence in each request. Four clients, and then sixteen, send 64 sentences in each request; four of
these also to a server of one CTranslate2 call for each sentence, which is how LibreTranslate answers a list. Beside
them stand the same sentences by the same engine in one process without a server. The first answer is that of a model
which was converted before; memory is that of all processes of the server, before and after --grow requests, which as
many have warmed up.

Every answer is compared with the offline one. The load generator is a process of its own on the same cores, and the
result says how much of them it took.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench import options
from bench.comparison import conclude
from bench.figures import ratios, spread
from bench.results import Row, Table
from regard.commands.run import prepare
from regard.errors import RegardError

LIST = 64  # sentences in a list
LISTING, MORE = 4, 16  # clients that send lists
SLOWER = 8  # times fewer lists for the server that takes one sentence at a time
WARM = 2000  # requests before anything is measured
PASSES = 3  # over all sentences, of each offline measurement
STARTS = 3  # servers whose first answer is waited for
TOGETHER = 1024  # sentences that the offline engine sorts by length

SINGLES, LISTS, MANY, PLAIN = (
    "singles",
    "lists",
    "lists of more clients",
    "a server of one CTranslate2 call for each sentence",
)
Body = tuple[str, list[str]]  # what is posted, and the texts that it is answered with


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

    def bodies(self, texts: Sequence[str], answers: Sequence[str], size: int) -> list[Body]:
        """Requests of so many texts each."""
        starts = range(0, len(texts), size)
        parts = [(list(texts[at : at + size]), list(answers[at : at + size])) for at in starts]
        return [(self.body(some if size > 1 else some[0]), expected) for some, expected in parts]

    def load(self, bodies: list[Body], *, clients: int, requests: int) -> dict[str, Any]:
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


def first_answer(model: Path, text: str, *, workers: int) -> float:
    """Seconds from the command to the first answer."""
    begun = time.perf_counter()
    with serving(model, workers=workers) as server:
        httpx.post(f"http://127.0.0.1:{server.port}/run/model", json={"input": text}, timeout=60).raise_for_status()
        return time.perf_counter() - begun


def main(arguments: list[str]) -> None:
    parser = options.parser("serve", __doc__, data=None)
    parser.add_argument("--model", type=Path, required=True, help="a model directory that translates")
    parser.add_argument("--texts", type=Path, required=True, help="a file of sentences, one on each line")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=20_000, help="of one sentence each, in each repeat")
    parser.add_argument("--grow", type=int, default=100_000, help="requests over which memory is watched; 0: none")
    given = options.read(parser, arguments)
    texts = [line for line in given.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    if given.quick:
        texts, given.repeats, given.requests, given.grow = texts[:LIST], 1, 2 * LIST, 0
    found = Measured(given, [*texts, *texts[: -len(texts) % LIST]])
    about = (
        "`regard serve` under load beside the same model offline, on the same cores as the load generator. Every "
        "answer is compared with the offline one."
    )
    conclude("serve", about, given, found.tables(), notes=found.notes)


class Measured:
    """Everything, repeat by repeat: offline, single sentences, lists, and lists at the plain server."""

    def __init__(self, given: argparse.Namespace, texts: list[str]) -> None:
        self.given, self.notes = given, list[str]()
        self.offline, self.loads = list[float](), {name: list[Loaded]() for name in (SINGLES, LISTS, MANY, PLAIN)}
        asking = prepare(given.model, {})
        answers = [each[0].text for each in asking.engine.answer_all(texts, asking.options, together=TOGETHER)]
        self.starts = [first_answer(given.model, texts[0], workers=given.threads) for _ in range(STARTS)]
        lists = max(LISTING, given.requests // LIST)
        with serving(given.model, workers=given.threads) as server, plain(given.model, threads=given.threads) as other:
            single, listed = server.bodies(texts, answers, 1), server.bodies(texts, answers, LIST)
            slowly = other.bodies(texts, answers, LIST)
            server.load(single, clients=given.clients, requests=min(WARM, given.requests))
            other.load(slowly, clients=LISTING, requests=LISTING)
            for _ in range(given.repeats):
                begun = time.perf_counter()
                for _ in range(PASSES):
                    list(asking.engine.answer_all(texts, asking.options, together=TOGETHER))
                self.offline.append(PASSES * len(texts) / (time.perf_counter() - begun))
                self._add(SINGLES, server.load(single, clients=given.clients, requests=given.requests), 1)
                self._add(LISTS, server.load(listed, clients=LISTING, requests=lists), LIST)
                self._add(MANY, server.load(listed, clients=MORE, requests=max(MORE, lists)), LIST)
                self._add(PLAIN, other.load(slowly, clients=LISTING, requests=max(LISTING, lists // SLOWER)), LIST)
            if given.grow:
                self.notes.append(grown(server, single, given))
            self.notes.append(f"asked at {server.path}; {given.threads} workers")

    def _add(self, name: str, found: dict[str, Any], size: int) -> None:
        self.loads[name].append(Loaded(size=size, **found))

    def tables(self) -> list[Table]:
        given, offline = self.given, Row("regard run, offline", self.offline, judged=False)

        def row(name: str, shown: str, *, ours: bool) -> Row:
            return Row(shown, [each.sentences_per_second for each in self.loads[name]], ours=ours)

        return [
            Table(
                f"one sentence in each request, {given.clients} clients",
                "sentences/s",
                [row(SINGLES, "regard serve", ours=True), offline],
                notes=[told("regard serve", self.loads[SINGLES])],
            ),
            Table(
                f"lists of {LIST} sentences, {LISTING} clients",
                "sentences/s",
                [row(LISTS, "regard serve", ours=True), row(PLAIN, PLAIN, ours=False), offline],
                notes=[told("regard serve", self.loads[LISTS]), told(PLAIN, self.loads[PLAIN])],
            ),
            Table(
                f"lists of {LIST} sentences, {MORE} clients",
                "sentences/s",
                [row(MANY, "regard serve", ours=True), offline],
                notes=[told("regard serve", self.loads[MANY])],
            ),
            Table(
                "from the command to the first answer",
                "s",
                [Row("regard serve", self.starts, ours=True)],
                higher=False,
            ),
        ]


@dataclass(frozen=True)
class Loaded:
    """What the load generator tells of one run, whose requests held `size` sentences each."""

    size: int
    seconds: float
    latencies: Sequence[float]  # in order
    errors: Sequence[str]
    failed: int
    different: int
    cpu: float  # cores that the load generator took

    @property
    def sentences_per_second(self) -> float:
        return self.size * len(self.latencies) / self.seconds

    def latency(self, share: float) -> float:
        """Milliseconds within which this share of the requests were answered."""
        return 1000 * self.latencies[int(share * (len(self.latencies) - 1))]


def told(name: str, loads: Sequence[Loaded]) -> str:
    """Latencies, what went wrong, and the load generator's share."""
    median, slow = ([each.latency(share) for each in loads] for share in (0.5, 0.99))
    errors = [error for each in loads for error in each.errors][:3]
    asked, cpu = sum(len(each.latencies) for each in loads), spread([each.cpu for each in loads])
    return (
        f"{name}: median {spread(median).text('.1f')} ms, 99th percentile {spread(slow).text('.1f')} ms, "
        f"{spread(ratios(slow, median)).text('.1f')} × the median; {sum(each.failed for each in loads)} failed, "
        f"{sum(each.different for each in loads)} of {asked:,} were answered otherwise than offline; "
        f"the load generator took {cpu.text('.2f')} cores" + "".join(f"; {error}" for error in errors)
    )


def grown(server: Server, single: list[Body], given: argparse.Namespace) -> str:
    """How the memory of all processes of the server grows."""
    server.load(single, clients=given.clients, requests=given.grow)
    before = server.memory()
    server.load(single, clients=given.clients, requests=given.grow)
    after = server.memory()
    return (
        f"memory of all processes: {before / 1e6:.0f} MB after {given.grow:,} requests to warm up, and "
        f"{after / 1e6:.0f} MB after {given.grow:,} more requests ({after / before - 1:+.2%})"
    )
