"""Forecasts of the series that come along, beside three forecasts without learning.

    nice -n 19 python -m bench series [--only airline] [--seeds 3] [--out FOLDER]

The recipe `series` learns each series without its last two seasons, with the seeds 1 to N, and forecasts these: from
four cut points (rolling origin) and from the first of them (fixed origin). The figures are means over the seeds, ± the
standard deviation. Pinball losses are in units of the MASE; that of a forecast without quantiles is its MASE.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
from rich.console import Console
from rich.table import Table

from regard.api import train
from regard.data.series.series import Numbers
from regard.tasks.forecast.baselines import naive2, seasonal_naive, theta
from regard.tasks.forecast.measures import mase, naive_scale, owa, smape
from regard.tasks.forecast.task import Forecast, Place

# the last time to learn from, and the changes to the recipe
SERIES: dict[str, tuple[str, list[str]]] = {
    "airline": ("1958-12", []),
    "sunspots": ("1986", ["data.season_length=11", "data.horizon=22"]),
    "co2": ("1999-12", []),
}
RULES: dict[str, Callable[[Numbers, int, int], Numbers]] = {
    "seasonal-naive": seasonal_naive,
    "Naive2": naive2,
    "Theta": theta,
}
ORIGINS = {"rolling": "", "fixed": "fixed_"}  # and how the names of scores begin
SCORES = ("mase", "smape", "owa", "pinball", "coverage")

Row = dict[str, Any]  # series, origin, system, and a list of values for each score, one for each seed


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    out = options.out or Path(tempfile.mkdtemp(prefix="regard-series-"))
    rows = [row for name in options.only or SERIES for row in measured(name, options, out)]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("series", "origin", "", "MASE", "sMAPE", "OWA", "pinball", "inside 80 %")
    for row in rows:
        figures = [_figure(row.get(name, []), places=1 if name == "coverage" else 2) for name in SCORES]
        table.add_row(row["series"], row["origin"], row["system"], *figures, end_section=row["system"] == "regard")
    Console(width=120).print(table)


def measured(name: str, options: argparse.Namespace, out: Path) -> list[Row]:
    """The scores of the rules and of the recipe on one series."""
    until, settings = SERIES[name]
    changes = [f'data.train="series:{name}?until={until}"', f'data.test="series:{name}"', *settings, *options.set]
    models = [
        train(
            "series",
            out=out / f"{name}-{seed}",
            changes=[*changes, f"training.seed={seed}", "training.threads=1", "training.validate_every=0"],
            show=sys.stderr.isatty(),
        )
        for seed in range(1, options.seeds + 1)
    ]
    task = models[0].task
    assert isinstance(task, Forecast)
    places = [place for series in models[0].examples() for place in task.places(series)]
    rows = []
    for origin, start in ORIGINS.items():
        used = places if origin == "rolling" else places[:1]
        found = {rule: ruled(forecast, task, used) for rule, forecast in RULES.items()}
        own = [{score: model.report["scores"].get(f"{start}{score}") for score in SCORES} for model in models]
        reference = found["Naive2"]["smape"], found["Naive2"]["mase"]
        for scores in [*found.values(), *own]:
            scores["owa"] = owa((scores["smape"], scores["mase"]), reference)
        systems = {**{rule: [scores] for rule, scores in found.items()}, "regard": own}
        for system, each in systems.items():
            values = {score: [scores[score] for scores in each] for score in SCORES if score in each[0]}
            rows.append({"series": name, "origin": origin, "system": system, **values})
    return rows


def ruled(
    forecast: Callable[[Numbers, int, int], Numbers], task: Forecast, places: Sequence[Place]
) -> dict[str, float]:
    """The mean scores of a rule over forecasts from some places."""
    season, found = task.plan.season, []
    for place in places:
        y = place.series.values[place.origin : place.origin + task.plan.horizon]
        said = forecast(place.past, season, len(y))
        found.append((mase(y, said, naive_scale(place.past, season)), smape(y, said)))
    mean_mase, mean_smape = numpy.mean(found, 0).tolist()
    return {"mase": mean_mase, "smape": mean_smape, "pinball": mean_mase}


def _figure(values: Sequence[float], *, places: int) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.{places}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{places}f}{spread}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench series", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=SERIES, help="only this series; may be given again")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="the folder of the models; those that exist are resumed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    return parser
