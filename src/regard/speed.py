"""How fast a model answers on this machine: what `regard bench` prints.

throughput   sentences and tokens a second, by how many are answered together and by beam
latency      from one text to its answer, when texts come one at a time: median, and 95 of 100
start        a new process, from the command to the answer of one text; the memory it then holds
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.errors import RegardError
from regard.interchange.expressible import read_recipe
from regard.runner import Chosen, Question, RuntimeName, choose
from regard.runtime.measure import cores
from regard.version import __version__

TEXTS = 256  # answered in a measurement of throughput, at most
TOGETHER = (1, 8, 64, 256)
SINGLE = 50  # texts answered one at a time
STARTS = 3
# Linux counts the parent's memory to a child's, unless the child says itself how much it held: "VmHWM: 1234 kB"
TELLING = """
import atexit, sys
from regard.cli import main
atexit.register(lambda: print([l for l in open("/proc/self/status") if "VmHWM" in l][0], file=sys.stderr))
main()
"""


def measure(
    directory: Path, *, data: Path | None = None, runtime: RuntimeName = "auto", console: Console | None = None
) -> dict[str, Any]:
    """Everything, as numbers. `data` is a file of texts, one a line; otherwise the recipe's own test or validation."""
    console = console or Console(quiet=True)
    texts = _texts(directory, data)
    own = read_recipe(directory).get("decoding", {}).get("beam", 1)
    rows = []
    for beam in sorted({1, own}):
        chosen = choose(directory, Question({"beam": beam}), runtime=runtime, compute_type="float32")
        for together in TOGETHER:
            with console.status(f"answering with beam {beam}, {together} together"):
                rows.append({"beam": beam, "together": together, **_throughput(chosen, texts, together)})
    with console.status("starting anew"):
        start = _start(directory, texts[0], runtime)
    chosen = choose(directory, Question({}), runtime=runtime, compute_type="float32")
    with console.status("answering one at a time"):
        latency = _latency(chosen, texts)
    return {
        "model": str(directory),
        "runtime": chosen.name,
        "why": chosen.why,
        "cores": cores(),
        "version": __version__,
        "texts": len(texts),
        "throughput": rows,
        "latency": {"beam": own, **latency},
        "start": start,
    }


def show(found: dict[str, Any], console: Console) -> None:
    """The same as a table."""
    table = Table("beam", "together", "sentences/s", "tokens/s", title=f"{found['model']}: {found['texts']} texts")
    for row in found["throughput"]:
        figures = f"{row['sentences_per_second']:,.1f}", f"{row['tokens_per_second']:,.0f}"
        table.add_row(str(row["beam"]), str(row["together"]), *figures)
    console.print(table)
    latency, start = found["latency"], found["start"]
    memory = "" if start["megabytes"] is None else f" and holds {start['megabytes']:,.0f} MB"
    console.print(
        f"one at a time, beam {latency['beam']}: half within {latency['median_ms']:.1f} ms, "
        f"95 of 100 within {latency['percentile_95_ms']:.1f} ms",
        f"a new process answers after {start['seconds']:.2f} s{memory}",
        f"runtime: {found['runtime']}, because {found['why']}; {found['cores']} cores",
        sep="\n",
        highlight=False,
    )


def _throughput(chosen: Chosen, texts: Sequence[str], together: int) -> dict[str, float]:
    some = texts[: min(len(texts), TEXTS, 16 * together)]
    list(chosen.stream(some[:together], together))  # the first answers pay for loading
    begin = time.perf_counter()
    tokens = sum(len(found[0].answer.tokens) + 1 for _, found in chosen.stream(some, together))
    seconds = time.perf_counter() - begin
    return {"sentences_per_second": len(some) / seconds, "tokens_per_second": tokens / seconds}


def _latency(chosen: Chosen, texts: Sequence[str]) -> dict[str, float]:
    taken = []
    list(chosen.stream(texts[:1], 1))
    for text in islice(cycle(texts), SINGLE):
        begin = time.perf_counter()
        list(chosen.stream([text], 1))
        taken.append(1000 * (time.perf_counter() - begin))
    return {"median_ms": statistics.median(taken), "percentile_95_ms": statistics.quantiles(taken, n=20)[-1]}


def _start(directory: Path, text: str, runtime: RuntimeName) -> dict[str, float | None]:
    arguments = ["run", str(directory), text, "--runtime", runtime]
    taken = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        _run(["-m", "regard.cli", *arguments])
        taken.append(time.perf_counter() - begin)
    said = _run(["-c", TELLING, *arguments]).split() if sys.platform == "linux" else []
    return {"seconds": statistics.median(taken), "megabytes": int(said[1]) / 1024 if said else None}


def _run(arguments: list[str]) -> str:
    """A new Python; what it says on standard error."""
    result = subprocess.run([sys.executable, *arguments], capture_output=True, encoding="utf-8", check=False)
    if result.returncode:
        raise RegardError(result.stderr.strip().removeprefix("regard: "))
    return result.stderr


def _texts(directory: Path, data: Path | None) -> list[str]:
    if data is not None:
        try:
            lines = data.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RegardError(f"{data} cannot be read as lines of text: {error}") from None
        texts = [line for line in lines if line.strip()]
    else:
        texts = _own_texts(directory)
    if not texts:
        raise RegardError(f"{data or directory} has no text to answer; name a file of lines with --data")
    return texts[:TEXTS]


def _own_texts(directory: Path) -> list[str]:
    from regard.data.examples import DataConfig, open_splits

    recipe = read_recipe(directory)
    try:
        splits = open_splits(DataConfig.model_validate(recipe["data"]), seed=recipe["training"]["seed"])
        pairs = islice(splits.test or splits.valid, TEXTS)
        return [pair.source for pair in pairs if pair.source.strip()]
    except RegardError as error:
        raise RegardError(f"{error}; or name a file of texts, one a line, with --data") from None
