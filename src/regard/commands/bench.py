"""How fast a model answers on this machine: what `regard bench` prints.

throughput   sentences and tokens a second, by how many are answered together and by beam
latency      from one text to its answer, when texts come one at a time: median, and 95 of 100
start        a new process, from the command to the answer of one text; the memory it then holds
forms        score and speed on the validation set in float32 and int8, with and without the shortlist; `regard run` and
             `regard serve` use the fastest that is as good
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

from regard import tasks
from regard.commands.run import Asking, prepare
from regard.data.files import read_lines
from regard.directory import ModelDirectory
from regard.engines.choose import EngineName
from regard.engines.ctranslate2.plans import cores
from regard.engines.ctranslate2.precision import Record, not_compared
from regard.engines.light import LightEngine
from regard.errors import RegardError
from regard.version import __version__

TEXTS = 256  # answered in a measurement of throughput, at most
TOGETHER = (1, 8, 64, 256)
SINGLE = 50  # texts answered one at a time
STARTS = 3
# Linux counts the parent's memory as the child's, so the child itself reports its peak: "VmHWM: 1234 kB"
TELLING = """
import atexit, sys
from regard.cli import main
atexit.register(lambda: print([l for l in open("/proc/self/status") if "VmHWM" in l][0], file=sys.stderr))
main()
"""


def measure(
    directory: Path, *, data: Path | None = None, runtime: EngineName = "auto", console: Console | None = None
) -> dict[str, Any]:
    """Everything, as numbers. `data` is a file of inputs, one a line; otherwise the recipe's own test or validation."""
    console = console or Console(quiet=True)
    lines = _lines(directory, data)
    given = {} if runtime == "auto" else {"runtime": runtime}
    asking = prepare(directory, given)
    searches = "beam" in asking.surface.options
    own = asking.options.decoding.beam if searches else None
    rows = []
    for beam in sorted({1, own}) if own is not None else [None]:
        chosen = asking if beam is None else prepare(directory, {**given, "beam": beam})
        for together in TOGETHER:
            with console.status(f"answering {together} together" + (f" with beam {beam}" if beam else "")):
                rows.append({"beam": beam, "together": together, **_throughput(chosen, lines, together)})
    with console.status("starting a new process"):
        start = _start(directory, lines[0], runtime)
    with console.status("answering one at a time"):
        latency = _latency(asking, lines)
    with console.status("comparing faster forms of answering with float32"):
        compared = _compared(directory, data, asking)
    return {
        "model": str(directory),
        "runtime": asking.engine.name,
        "why": asking.engine.why,
        "cores": cores(),
        "version": __version__,
        "texts": len(lines),
        "throughput": rows,
        "latency": {"beam": own, **latency},
        "start": start,
        "forms": compared,
    }


def show(found: dict[str, Any], console: Console) -> None:
    """The same as a table."""
    table = Table("beam", "together", "inputs/s", "tokens/s", title=f"{found['model']}: {found['texts']} inputs")
    for row in found["throughput"]:
        figures = (
            f"{row['sentences_per_second']:,.1f}",
            f"{row['tokens_per_second']:,.0f}" if row["tokens_per_second"] else "–",
        )
        table.add_row(str(row["beam"] or "–"), str(row["together"]), *figures)
    console.print(table)
    latency, start = found["latency"], found["start"]
    memory = "" if start["megabytes"] is None else f" and holds {start['megabytes']:,.0f} MB"
    beam = "" if latency["beam"] is None else f", beam {latency['beam']}"
    console.print(
        f"one at a time{beam}: half within {latency['median_ms']:.1f} ms, "
        f"95 of 100 within {latency['percentile_95_ms']:.1f} ms",
        f"a new process answers after {start['seconds']:.2f} s{memory}",
        f"runtime: {found['runtime']}, because {found['why']}; {found['cores']} cores",
        found["forms"]["told"],
        sep="\n",
        highlight=False,
    )


def _compared(directory: Path, data: Path | None, asking: Asking) -> dict[str, Any]:
    """The record of faster forms beside the exact one, or the reason why there is none."""
    if not isinstance(asking.engine, LightEngine):
        found: Record | str = f"CTranslate2 does not answer, because {asking.engine.why}"
    else:
        from regard.api.judging import judge  # which imports torch

        found = judge(directory, data=None if data is None else str(data))
    if isinstance(found, str):
        return {"reason": found, "told": not_compared(found)}
    return {**found.model_dump(), "used": found.verdict._asdict(), "told": str(found)}


def _throughput(asking: Asking, lines: Sequence[str], together: int) -> dict[str, float]:
    some = lines[: min(len(lines), TEXTS, 16 * together)]
    _answers(asking, some[:together], together)  # the first answers pay for loading
    begin = time.perf_counter()
    answers = _answers(asking, some, together)
    seconds = time.perf_counter() - begin
    tokens = sum(map(asking.surface.tokens, answers))
    return {"sentences_per_second": len(some) / seconds, "tokens_per_second": tokens / seconds}


def _latency(asking: Asking, lines: Sequence[str]) -> dict[str, float]:
    taken = []
    _answers(asking, lines[:1], 1)
    for line in islice(cycle(lines), SINGLE):
        begin = time.perf_counter()
        _answers(asking, [line], 1)
        taken.append(1000 * (time.perf_counter() - begin))
    return {"median_ms": statistics.median(taken), "percentile_95_ms": statistics.quantiles(taken, n=20)[-1]}


def _answers(asking: Asking, lines: Sequence[str], together: int) -> list[object]:
    return list(asking.engine.answer_all(map(asking.surface.parse, lines), asking.options, together=together))


def _start(directory: Path, text: str, runtime: EngineName) -> dict[str, float | None]:
    arguments = ["run", *([] if runtime == "auto" else ["--runtime", runtime]), "--", str(directory), text]
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


def _lines(directory: Path, data: Path | None) -> list[str]:
    if data is not None:
        lines = [line for _, line in read_lines(str(data)) if line.strip()]
    else:
        lines = _own_lines(ModelDirectory(directory))
    if not lines:
        raise RegardError(f"{data or directory} has no text to answer; name a file of lines with --data")
    return lines[:TEXTS]


def _own_lines(directory: ModelDirectory) -> list[str]:
    """The inputs of the examples that the recipe names to judge the model by."""
    from regard.api.loading import stored_recipe  # which imports torch
    from regard.api.model import examples_of

    recipe = stored_recipe(directory)
    try:
        found = tasks.task(recipe.task).lines(examples_of(recipe, directory.path))
        return list(islice((line for line in found if line.strip()), TEXTS))
    except RegardError as error:
        raise RegardError(f"{error}; or name a file of inputs, one a line, with --data") from None
