"""`regard demo series`: from nothing to a forecast with intervals, its scores beside a simple rule, and a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.api.model import Model
from regard.api.training import train

ASKED = "series:airline"
SHOWN = 6  # months that are printed
NAMES = ("", "seasonal_naive_")  # the model, and the last year again
ORIGINS = {"rolling": "", "fixed": "fixed_"}  # how the last months are judged, and the beginning of the names of scores


def run(inputs: Sequence[str], *, out: Path, show: Console | None = None) -> Model:
    """Train the embedded recipe in `out` (or resume it), score it, continue tables, and draw the first forecast."""
    console = show or Console()
    console.print(
        "[bold]regard demo series[/]: learning the monthly passengers of airlines from 1949 to 1958, to forecast 1959 "
        "and 1960\n"
    )
    model = train("series", out=out, show=True)
    console.print()
    console.print(_scores(model.report["scores"]))
    console.print(
        "Less is better. MASE is the mean error, divided by that of repeating the last year in the past; sMAPE is in "
        "percent.\nRolling: four forecasts, from four cut points in the last 24 months. Fixed: one of all 24 months.\n",
        highlight=False,
    )
    asked = list(inputs) or [ASKED]
    for name, rows in zip(asked, model.answers(asked), strict=True):
        console.print(f"the months after the end of {name}:", highlight=False)
        for row in rows[:SHOWN]:
            time, middle, low, high = list(row.values())[1:]
            console.print(f"  {time}  [bold]{middle:8.5g}[/]   80 %: {low:.5g} to {high:.5g}", highlight=False)
    record, picture, page = model.look(asked[0]), out / "forecast.png", out / "look.html"
    record.save(picture)
    record.save(page)
    console.print(
        f"\nthe forecast, and how much each step of it took from the steps before: [bold]{picture}[/], and as a page "
        f"[bold]{page}[/].\nThe model is in [bold]{out}[/]. Try next:\n"
        f"  regard run {out} {ASKED}                 all 24 months as a table\n"
        f"  regard look {out} {ASKED}                in the terminal\n"
        "  regard train series --set model.cell=transformer   attention over the past\n"
        "  regard train my.csv --set data.horizon=12          a table of your own\n",
        highlight=False,
    )
    return model


def _scores(scores: Mapping[str, float]) -> Table:
    """The scores of the model beside those of seasonal-naive."""
    table = Table("on the last 24 months", "MASE", "sMAPE", "inside the 80 % interval")
    for origin, start in ORIGINS.items():
        own, other = ([f"{scores[f'{start}{who}{name}']:.2f}" for name in ("mase", "smape")] for who in NAMES)
        table.add_row(f"this model, {origin} origin", *own, f"{scores[f'{start}coverage']:.0f} %")
        table.add_row(f"last year again, {origin} origin", *other, "", end_section=True)
    return table
