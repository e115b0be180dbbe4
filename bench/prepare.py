"""Preparing many pairs: peak resident memory, and pairs a second beside the `tokenizers` library alone.

    python -m bench prepare [--pairs 20000000] [--folder FOLDER]

Synthetic pairs of about 100 bytes are written to a temporary folder, as many as asked for. `regard prepare`, the
library and the first step of `regard train` run in processes of their own, with one thread. Rates are by the time of
the processor, reading and writing included; the library encodes lines that are in memory already.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy

from bench.worker import scratch

PART = 1_000_000  # pairs in a file
BLOCK = 10_000  # pairs made at a time
WORDS = 30_000
SAMPLE = 100_000  # pairs that the library encodes
RECIPE = """
task = "translate"
[data]
train = "{folder}/pairs-*.tsv"
valid = "{folder}/valid.tsv"
[model]
kind = "transformer"
layers = 2
width = 64
heads = 4
hidden = 256
[training]
steps = 1
threads = 1
validate_every = 0
batch_tokens = 512
[decoding]
beam = 1
max_length = 8
"""


class Ended(NamedTuple):
    """What a process printed, how long it took and how much memory it had resident at most."""

    said: str
    seconds: float
    megabytes: float


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench prepare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder unless given")
    given = parser.parse_args(arguments)
    with _folder(given.folder) as folder:
        size = write_pairs(folder, given.pairs)
        print(f"{given.pairs:,} pairs, {size / 1e9:.2f} GB of text")
        recipe = folder / "recipe.toml"
        recipe.write_text(RECIPE.format(folder=folder))
        prepared = _regard("prepare", recipe, folder, "--processes", "1", "--json")
        read = json.loads(prepared.said)["read"]["the train pairs"]
        ours = read["count"] / read["cpu_seconds"]
        print(f"regard prepare     {ours:10,.0f} pairs a second of one core, {read['seconds']:,.0f} s of tokenising")
        library = json.loads(_bare(folder).said)
        for name, rate in library.items():
            print(f"{name:18} {rate:10,.0f} pairs a second of one core; regard has {ours / rate:.2f} of it")
        print(f"regard prepare     {prepared.megabytes:6,.0f} MB resident at most, {prepared.seconds:,.0f} s in all")
        first = _regard("train", recipe, folder)
        print(f"the first step     {first.megabytes:6,.0f} MB resident at most, {first.seconds:,.0f} s in all")


def write_pairs(folder: Path, count: int) -> int:
    """Write pairs of made words, the frequent ones as frequent as in a language. → bytes"""
    generator = numpy.random.default_rng(0)
    words = _words(generator)
    chances = numpy.cumsum(1 / numpy.arange(1, WORDS + 1))
    size = 0
    for part in range(0, count, PART):
        path = folder / f"pairs-{part // PART:04d}.tsv"
        with path.open("w", encoding="utf-8") as file:
            for begin in range(part, min(part + PART, count), BLOCK):
                rows = min(BLOCK, count - begin)
                lengths = generator.integers(4, 13, 2 * rows)
                drawn = numpy.searchsorted(chances, generator.random(lengths.sum()) * chances[-1])
                said = iter([words[number] for number in drawn.tolist()])
                texts = [" ".join([next(said) for _ in range(length)]) for length in lengths.tolist()]
                file.writelines(f"{a}.\t{b}.\n" for a, b in zip(texts[::2], texts[1::2], strict=True))
        size += path.stat().st_size
    with (folder / "pairs-0000.tsv").open(encoding="utf-8") as file:
        (folder / "valid.tsv").write_text("".join(next(file) for _ in range(min(8, count))), encoding="utf-8")
    return size


def _words(generator: numpy.random.Generator) -> list[str]:
    letters = numpy.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    chances = 1 / numpy.arange(1, len(letters) + 1)
    lengths = generator.integers(2, 10, WORDS)
    drawn = iter(generator.choice(letters, size=int(lengths.sum()), p=chances / chances.sum()).tolist())
    return ["".join([next(drawn) for _ in range(length)]) for length in lengths.tolist()]


def _regard(command: str, recipe: Path, folder: Path, *more: str) -> Ended:
    return _run([sys.executable, "-m", "regard", command, str(recipe), "-o", str(folder / "run"), *more])


def _bare(folder: Path) -> Ended:
    return _run([sys.executable, "-m", "bench.peers.tokenizers_encode", str(folder), str(SAMPLE)])


def _run(command: Sequence[str]) -> Ended:
    """Run a command with one thread."""
    alone = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    process = subprocess.Popen(command, env=alone, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench: {' '.join(command)} ended with {process.returncode}")
    return Ended(said, time.monotonic() - began, usage.ru_maxrss / 1024)


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with scratch() as folder:
        yield Path(folder)
