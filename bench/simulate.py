"""How long training takes with many processes: predicted and measured here, and estimated for GPUs.

    python -m bench simulate [--sizes tiny base] [--processes 1 2 4] [--tokens 2048] [--steps 10] [--json]
    python -m bench simulate --only estimate

Here, one process is measured, and an all-reduce of two processes. What this says of products, memory and exchange
predicts the step of 2 and 4 processes, which is then measured too. Processes have one thread each and exchange by gloo
over loopback; where there are more processes than cores, they take turns.

For GPUs, floating-point operations, started operations and kept bytes are counted in regard's own models, and the
figures of the hardware are its maker's. Assumed, not measured: the share of the peak that products reach, and how much
of the exchange hides behind them. What is kept for the backward pass is counted in float32, and bfloat16 takes half.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import machine, together
from bench.cost import BASE, TINY
from bench.counted import Model
from bench.scaling import Device, Link, Step, Work, line, memory, step, throughput
from regard.recipes.presets import PRESETS

SIZES = {"tiny": TINY, "base": BASE}

REACHED = 0.45  # of the peak, by products of large models
LAUNCH = 6e-6  # seconds to start an operation from Python
A100 = Device("A100 80 GB", REACHED * 312e12, 2.0e12, launch=LAUNCH, overlap=0.9, number=2)  # bfloat16, HBM2e
P100 = Device("P100", REACHED * 9.5e12, 0.73e12, launch=LAUNCH, overlap=0.9)  # Vaswani 2017 reckons with 9.5e12
NVLINK = Link("NVLink", 300e9, 5e-6)  # each direction
NVLINK_1 = Link("first NVLink", 80e9, 5e-6)
NETWORK = Link("InfiniBand HDR, one for each GPU", 25e9, 15e-6)  # 200 Gbit/s
WIDTH = 130  # characters of a table


@dataclass(frozen=True)
class Plan:
    """A training that is to be estimated."""

    model: Model
    device: Device
    processes: int
    link: Link
    targets: int  # of all processes in a step
    steps: int
    sharded: bool = False
    published: float | None = None  # hours


TRANSFORMER, GPT = PRESETS["transformer"], PRESETS["gpt"]
WMT, BLOCK = 28, 1024  # tokens of a sentence of WMT14 on either side, and of a block of a language model
TRANSLATING = {name: Model(f"WMT14 {name}", "transformer", TRANSFORMER[name], 37_000, WMT) for name in ("base", "big")}
WRITING = Model("GPT medium", "gpt", GPT["medium"], 50_257, BLOCK)
PLANS = [
    # Vaswani 2017, section 5.2: 25,000 target tokens in a step, 100,000 steps in 12 hours, 300,000 in 3.5 days
    Plan(TRANSLATING["base"], P100, 8, NVLINK_1, 25_000, 100_000, published=12.0),
    Plan(TRANSLATING["big"], P100, 8, NVLINK_1, 25_000, 300_000, published=84.0),
    Plan(TRANSLATING["base"], A100, 8, NVLINK, 25_000, 100_000),
    Plan(TRANSLATING["big"], A100, 8, NVLINK, 25_000, 300_000),
    # 10 billion tokens, half a million in a step, as Brown 2020 had for models of this size
    Plan(WRITING, A100, 64, NETWORK, 2**19, 10**10 // 2**19),
    Plan(WRITING, A100, 64, NETWORK, 2**19, 10**10 // 2**19, sharded=True),
]


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    console, found = Console(width=WIDTH), dict[str, Any]()
    if options.only != "estimate":
        found["machine"] = machine.describe(1)
        found["measured"] = [
            row for name in options.sizes for row in measured(name, options.processes, options.tokens, options.steps)
        ]
    if options.only != "here":
        works = {plan.model.name: plan.model.work(1) for plan in PLANS}
        found["estimated"] = [estimated(plan, works[plan.model.name]) for plan in PLANS]
    if options.json:
        print(json.dumps(found, indent=2))
        return
    if "measured" in found:
        _show_measured(found["measured"], console)
    if "estimated" in found:
        _show_estimated(found["estimated"], console)


def measured(name: str, processes: list[int], tokens: int, count: int) -> list[dict[str, Any]]:
    """Rows of processes, threads, and predicted and measured seconds of a step and targets a second."""
    size, cores = SIZES[name], together.cores()
    settings = {key: value for key, value in size.settings().items() if key != "vocabulary"}
    rows = max(tokens // together.LENGTH, 1)
    work = Model(name, "transformer", settings, size.vocabulary, together.LENGTH).work(rows * together.LENGTH)

    def learned(number: int, threads: int) -> float:
        return together.steps(size, number, threads=threads, tokens=tokens, count=count)

    alone = learned(1, 1)
    device = calibrated(work, alone, together.traffic())
    link = line(together.PROBES, together.exchanges(2), 2, name="loopback")
    found = []
    for number in processes:
        predicted = step(work, device, link, number, slower=max(1.0, number / cores))
        seconds = alone if number == 1 else learned(number, 1)
        found.append(_row(name, work, number, 1, seconds, predicted))
    if cores > 1:
        found.append(_row(name, work, 1, cores, learned(1, cores), None))
    return found


def calibrated(work: Work, seconds: float, traffic: float) -> Device:
    """The device on which a step of one process takes so long."""
    update = step(work, Device("", 1.0, traffic), Link("", 1.0, 0.0), 1).update
    return Device("this machine", work.flops / max(seconds - update, 0.1 * seconds), traffic)


def _row(name: str, work: Work, processes: int, threads: int, seconds: float, predicted: Step | None) -> dict[str, Any]:
    return {
        "model": name,
        "processes": processes,
        "threads": threads,
        "predicted": None if predicted is None else predicted.seconds,
        "exchange": None if predicted is None else predicted.exchange,
        "measured": seconds,
        "targets_per_second": processes * work.targets / seconds,
    }


def estimated(plan: Plan, one: Work) -> dict[str, Any]:
    """Hours, bytes on each device by what they hold, and bytes that each sends; `one` is the work on one target."""
    work = one.of(plan.targets // plan.processes)
    found = step(work, plan.device, plan.link, plan.processes, sharded=plan.sharded)
    return {
        "model": plan.model.name,
        "device": plan.device.name,
        "devices": plan.processes,
        "link": plan.link.name,
        "sharded": plan.sharded,
        "parameters": work.parameters,
        "flops_per_target": work.flops / work.targets,
        "targets_per_step": plan.targets,
        "steps": plan.steps,
        "step": asdict(found),
        "seconds_per_step": found.seconds,
        "targets_per_second": throughput(work, found, plan.processes),
        "hours": plan.steps * found.seconds / 3600,
        "published_hours": plan.published,
        "memory": memory(work, plan.device, plan.processes, sharded=plan.sharded),
    }


def _show_measured(rows: list[dict[str, Any]], console: Console) -> None:
    columns = ("model", "processes × threads", "predicted ms", "of which exchange", "measured ms", "ratio", "targets/s")
    table = Table(*columns, title="a step on this machine")
    for row in rows:
        predicted = row["predicted"]
        said = ["–"] * 3
        if predicted is not None:
            said = [f"{1e3 * predicted:.1f}", f"{1e3 * row['exchange']:.1f}", f"{predicted / row['measured']:.2f}"]
        table.add_row(
            row["model"],
            f"{row['processes']} × {row['threads']}",
            said[0],
            said[1],
            f"{1e3 * row['measured']:.1f}",
            said[2],
            f"{row['targets_per_second']:,.0f}",
        )
    console.print(table)


def _show_estimated(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table("", *(f"{row['model']}{', sharded' if row['sharded'] else ''}" for row in rows), title="estimates")
    parts = list(rows[0]["memory"])
    lines = {
        "devices": lambda row: f"{row['devices']} × {row['device']}",
        "link": lambda row: row["link"],
        "parameters": lambda row: f"{row['parameters'] / 1e6:.0f} million",
        "FLOPs for each target": lambda row: f"{row['flops_per_target']:.2e}",
        "targets in a step": lambda row: f"{row['targets_per_step']:,}",
        "products, ms": lambda row: f"{1e3 * row['step']['products']:.1f}",
        "update, ms": lambda row: f"{1e3 * row['step']['update']:.1f}",
        "exchange, ms (not hidden)": lambda row: (
            f"{1e3 * row['step']['exchange']:.1f} ({1e3 * row['step']['exposed']:.1f})"
        ),
        "sent by each in a step, MB": lambda row: f"{row['step']['sent'] / 1e6:,.0f}",
        "targets/s": lambda row: f"{row['targets_per_second']:,.0f}",
        "steps": lambda row: f"{row['steps']:,}",
        "hours": lambda row: f"{row['hours']:.1f}",
        "published": lambda row: "" if row["published_hours"] is None else f"{row['published_hours']:.1f}",
        **{f"{part}, GB": lambda row, part=part: f"{row['memory'][part] / 1e9:.2f}" for part in parts},
    }
    for name, said in lines.items():
        table.add_row(name, *map(said, rows))
    console.print(table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench simulate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--tokens", type=int, default=2048, help="target tokens in a batch of one process")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", choices=["here", "estimate"], help="this part alone")
    parser.add_argument("--json", action="store_true")
    return parser
