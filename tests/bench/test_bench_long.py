"""The cost of attention over long inputs: our worker, and what is made of the figures."""

import sys
from pathlib import Path

import pytest

from bench import long, long_plots, machine, peers
from bench.results import Result, Row, Table
from bench.worker import System, Worker

SETTINGS = {**long.SIZES, "heads": 2, "width": 4, "window": 8, "blocks": 4, "causal": False, "length": 64, "threads": 1}


@pytest.mark.parametrize("system", [each for each in long.SYSTEMS if each.ours], ids=lambda each: each.name)
def test_our_worker_measures_every_form(system: System) -> None:
    command = [sys.executable, str(peers.script(system.script))]
    with Worker(system, threads=1, command=command) as worker:
        assert worker.ask("prepare", **{**SETTINGS, **system.settings})["versions"]
        found = worker.ask("run")
        assert found["seconds"] > 0
        assert found["growth_mb"] >= 0


def made_up() -> list[Table]:
    """Exact attention costs the square of the length, the window the length."""
    costs = {
        "torch, exact": {length: length**2 / 1000 for length in long.LENGTHS},
        "regard, window": {length: length / 2 for length in long.LENGTHS},
    }
    return [
        Table(f"time, {length:,} positions", "ms", [Row(name, [cost[length]] * 3) for name, cost in costs.items()])
        for length in long.LENGTHS
    ]


def test_growth_is_the_power_of_the_length() -> None:
    (line,) = long.growth(made_up())
    assert "torch, exact 2.00" in line
    assert "regard, window 1.00" in line


def test_a_ratio_says_how_many_times_less_ours_costs() -> None:
    (line,) = long.bars(made_up())
    assert "torch, exact ÷ regard, window, time at 16,384: 32.77 (wanted ≥ 40)" in line


def test_both_plots_are_drawn_alike_each_time(tmp_path: Path) -> None:
    tables = [*made_up(), Table("memory, 512 positions", "MB", [Row("regard, window", [3.0])])]
    result = Result("long", "", "", machine.today(), machine.describe(1), tables)
    first, second = (long_plots.draw(result, tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["long-time.svg", "long-memory.svg"]
    for path, other in zip(first, second, strict=True):
        assert path.read_text() == other.read_text()
    assert "regard, window" in first[0].read_text()
    assert "16,384" in first[0].read_text()
