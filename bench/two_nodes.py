"""Two nodes on one machine: two network namespaces joined by a cable (a veth pair), one process in each.

    sudo python -m bench two-nodes [--recipe demo] [--steps 40] [--distribution sharded] [--set KEY=VALUE]…

torchrun brings them together over the cable (c10d rendezvous), and they train one model. It must have the weights that
two processes on one node learn. The namespaces are removed at the end, whatever happens. Both nodes see the same files,
as on machines that share a disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import safetensors.numpy
from numpy import abs as absolute

from regard.errors import RegardError

NODES = {"regard-node-1": "10.203.71.1", "regard-node-2": "10.203.71.2"}  # namespaces, and their addresses
CABLE = ("regard-eth-1", "regard-eth-2")  # the ends of the cable, one in each
PORT = 29471
THREADS = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
LIMIT = 1800  # seconds


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench two-nodes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--distribution", default="replicated", choices=["replicated", "sharded"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    _require_rights()
    changes = [f"training.steps={given.steps}", f"training.distribution.kind={given.distribution}", *given.set]
    words = ["-m", "regard", "train", given.recipe, *(part for change in changes for part in ("--set", change))]
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder) / "one-node", Path(folder) / "two-nodes"
        print("training with two processes on one node")
        alone = [sys.executable, *words, "-o", str(one), "--processes", "2"]
        _wait([subprocess.Popen(alone, env={**os.environ, **THREADS})])
        print("training on two nodes")
        with _nodes():
            _wait([_start(number, [*words, "-o", str(two)]) for number in range(len(NODES))])
        largest = _difference(one, two)
    print(f"the largest difference of a weight between two nodes and one node with two processes is {largest:.1e}")
    if largest:
        sys.exit(1)


def _require_rights() -> None:
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        raise RegardError("network namespaces need Linux and its command `ip` (package iproute2), not found here")
    if os.geteuid() != 0:
        raise RegardError("network namespaces are made by root; run the same command with sudo")


@contextmanager
def _nodes() -> Iterator[None]:
    """Within, there are two namespaces with a cable between them. SIGTERM, as of `timeout`, ends the `with` too; what a
    killed run has left is removed first."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _remove()
    try:
        for node in NODES:
            _ip("netns", "add", node)
        _ip("link", "add", CABLE[0], "type", "veth", "peer", "name", CABLE[1])
        for (node, address), end in zip(NODES.items(), CABLE, strict=True):
            _ip("link", "set", end, "netns", node)
            _ip("-n", node, "address", "add", f"{address}/24", "dev", end)
            _ip("-n", node, "link", "set", end, "up")
            _ip("-n", node, "link", "set", "lo", "up")
        yield
    finally:
        _remove()
        signal.signal(signal.SIGTERM, before)


def _remove() -> None:
    for node in NODES:  # a cable goes with the namespaces that its ends are in
        subprocess.run(["ip", "netns", "delete", node], check=False, capture_output=True)
    subprocess.run(["ip", "link", "delete", CABLE[0]], check=False, capture_output=True)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RegardError(f"`ip {' '.join(words)}` says: {done.stderr.strip() or done.returncode}")


def _start(number: int, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """torchrun on one of the nodes, with one process."""
    node, address = list(NODES.items())[number]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(NODES)), "--nproc-per-node", "1"]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{NODES['regard-node-1']}:{PORT}", "--rdzv-id", "regard"]
    torchrun += ["--rdzv-conf", f"is_host={int(number == 0)}", "--local-addr", address, "--max-restarts", "0"]
    surroundings = {**os.environ, **THREADS, "GLOO_SOCKET_IFNAME": CABLE[number]}
    return subprocess.Popen(["ip", "netns", "exec", node, *torchrun, *words], env=surroundings)


def _wait(runs: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all have ended; one that fails ends the others."""
    try:
        codes = [run.wait(LIMIT) for run in runs]
    finally:
        for run in runs:
            run.kill()
            run.wait()
    if any(codes):
        raise RegardError(f"a run ended with exit code {max(codes, key=abs)}; what it said is above")


def _difference(one: Path, two: Path) -> float:
    ours, theirs = (safetensors.numpy.load_file(folder / "weights.safetensors") for folder in (one, two))
    return max(float(absolute(ours[name] - weights).max()) for name, weights in theirs.items())
