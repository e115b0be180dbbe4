"""`regard serve` asked what schemathesis generates from its own OpenAPI: no request may be answered with a 5xx.

python -m bench serve-fuzz --model DIR [--requests 100000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from bench.serve import serving
from regard.errors import RegardError


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench serve-fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
