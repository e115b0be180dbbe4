"""Attention over long inputs, forward and backward: time and memory by length, beside the packages people use.

    python -m bench long [--lengths 512 1024 2048 4096 8192 16384] [--repeats 3] [--threads 2]

Every figure is of the attention alone, on queries, keys and values of 8 heads × 64, batch 1, float32: the four linear
maps around it are left out on both sides, and Linformer's projections of the positions count. Both Linformers take and
give (1, length, 8 · 64), the layout of the package; the other systems (1, 8, length, 64). Each system has a process
of its own at each length. Memory is how far the process grew after its packages were imported. The plots
docs/images/long-time.svg and docs/images/long-memory.svg are drawn from the result.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.comparison import conclude
from bench.long_plots import MEMORY, TIME, draw, series
from bench.results import Row, Table
from bench.worker import TUNED_ALLOCATOR, PeerError, System, Worker

IMAGES = Path(__file__).parent.parent / "docs" / "images"
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
SIZES = {"heads": 8, "width": 64, "window": 256, "blocks": 64, "random": 3, "rank": 256, "features": 266}
EXACT = "torch, exact"


def _ours(form: str, *own: str, causal: bool = False, merged: bool = False) -> System:
    name = f"regard, {form.replace('_', ' ')}{', causal' if causal else ''}"
    return System(name, "regard_long", {"form": form, "own": own, "causal": causal, "merged": merged}, TUNED_ALLOCATOR)


def _theirs(name: str, script: str, **settings: Any) -> System:
    return System(name, script, settings, TUNED_ALLOCATOR)


SYSTEMS = (
    _theirs(EXACT, "torch_long"),
    _ours("window", "window"),
    _ours("window", "window", causal=True),
    _ours("big_bird", "blocks", "random"),
    _ours("linformer", "rank", merged=True),
    _ours("performer", "features"),
    _ours("performer", "features", causal=True),
    _theirs("transformers, big bird", "transformers_long"),
    _theirs("linformer", "linformer_long"),
    _theirs("performer-pytorch", "performer_pytorch_long", causal=False),
    _theirs("performer-pytorch, causal", "performer_pytorch_long", causal=True),
)

# ours, what it is compared with, the unit, and how many times less ours is to cost
BARS = (
    ("regard, window", EXACT, TIME, "≥ 40"),
    ("regard, big bird", EXACT, TIME, "≥ 12"),
    ("regard, performer", "performer-pytorch", TIME, "≥ 2"),
    ("regard, performer", "performer-pytorch", MEMORY, "≥ 2"),
    ("regard, linformer", "linformer", TIME, "≥ 1.5"),
    ("regard, linformer", "linformer", MEMORY, "≥ 2"),
    ("regard, performer, causal", "regard, performer", TIME, "≥ 0.77"),
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench long", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--repeats", type=int, default=3, help="how often each is measured, after once to warm up")
    parser.add_argument("--threads", type=int, default=2, help="that each system may use")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="systems whose name holds this")
    parser.add_argument("--images", type=Path, default=IMAGES, help="the folder of the plots")
    parser.add_argument("--json", action="store_true", help="print what is written to bench/results instead of a table")
    parser.add_argument("--quick", action="store_true", help="nothing is kept, neither the result nor the plots")
    given = parser.parse_args(arguments)
    given.command = shlex.join([*parser.prog.split(), *(word for word in arguments if word != "--json")])
    systems = [system for system in SYSTEMS if not given.only or any(word in system.name for word in given.only)]
    notes: list[str] = []
    versions: dict[str, dict[str, str]] = {}
    tables = [
        table for length in given.lengths for table in _tables(length, systems, given, notes=notes, versions=versions)
    ]
    result = conclude(
        "long", _about(), given, tables, versions=versions, notes=[*notes, *growth(tables), *bars(tables)]
    )
    if not given.quick:
        draw(result, given.images)


def _about() -> str:
    return (
        "Attention forward and backward, batch 1, 8 heads × 64, float32, without the four linear maps around it: "
        "window 256, Big Bird with blocks of 64 and 3 random ones, Linformer of rank 256, Performer with 266 features. "
        "Memory is how far the process grew after its packages were imported. Less is better."
    )


def _tables(
    length: int,
    systems: Sequence[System],
    given: argparse.Namespace,
    *,
    notes: list[str],
    versions: dict[str, dict[str, str]],
) -> list[Table]:
    """Time and memory of every system at one length; what could not run is told in `notes`."""
    times, memory = [], []
    for system in systems:
        print(f"{length} positions: {system.name}", file=sys.stderr)
        settings = {**SIZES, "causal": False, "length": length, "threads": given.threads, **system.settings}
        try:
            answers = _measured(system, settings, given, versions)
        except PeerError as error:
            notes.append(f"{system.name} did not run at {length:,} positions: {error}")
            continue
        times.append(Row(system.name, [1000 * answer["seconds"] for answer in answers]))
        memory.append(Row(system.name, [answers[-1]["growth_mb"]]))
    made = [(TIME, times, "time"), (MEMORY, memory, "memory")]
    return [Table(f"{what}, {length:,} positions", unit, rows, higher=False) for unit, rows, what in made if rows]


def _measured(
    system: System, settings: Mapping[str, Any], given: argparse.Namespace, versions: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    with Worker(system, threads=given.threads) as worker:
        versions[system.name] = worker.ask("prepare", **settings)["versions"]
        worker.ask("run")
        return [worker.ask("run") for _ in range(given.repeats)]


def growth(tables: Sequence[Table], *, short: int = 4096, long: int = 16384) -> list[str]:
    """How cost grows from one length to the other: a in cost ∝ lengthᵃ, for each system that ran at both."""
    lines = []
    for unit, what in ((TIME, "time"), (MEMORY, "memory")):
        both = {name: costs for name, costs in series(tables, unit).items() if {short, long} <= costs.keys()}
        powers = {name: math.log(costs[long] / costs[short]) / math.log(long / short) for name, costs in both.items()}
        if powers:
            told = ", ".join(f"{name} {power:.2f}" for name, power in powers.items())
            lines.append(f"{what} grows from {short:,} to {long:,} positions with the power: {told}")
    return lines


def bars(tables: Sequence[Table], *, length: int = 16384) -> list[str]:
    """How many times less ours costs than what it is compared with, and what was to be reached."""
    lines = []
    for ours, theirs, unit, bar in BARS:
        costs = {name: found[length] for name, found in series(tables, unit).items() if length in found}
        if ours in costs and theirs in costs:
            what = "time" if unit == TIME else "memory"
            lines.append(f"{theirs} ÷ {ours}, {what} at {length:,}: {costs[theirs] / costs[ours]:.2f} (wanted {bar})")
    return lines
