"""`regard demo graph`: nodes that ask their neighbours, and which neighbour attention finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.api.model import Model
from regard.api.training import train


def run(inputs: Sequence[str], *, out: Path, show: Console | None = None) -> Model:
    """Train the embedded recipe in `out` (or resume it), score it, answer some nodes, draw what one looked at."""
    console = show or Console()
    console.print(
        "[bold]regard demo graph[/]: node 7:3? of group 7 asks for the key 3, and its neighbour\n"
        "7:3=1 has the answer, 1. All askers of a group have the same neighbours.\n"
    )
    model = train("graph", out=out, show=True)
    held_out = list(model.task.lines(model.examples()))
    labels = len(model.answers(held_out[:1])[0])
    console.print(
        f"\non groups that it has never seen, [bold]{model.report['scores']['accuracy']:.1f} %[/] of the answers are "
        f"right. The mean of the neighbours is the same for all {labels} askers of a group, whose answers all differ: "
        f"it gives {100 / labels:.0f} %.\n"
    )
    asked = list(inputs) or held_out[:labels]
    for node, answer in zip(asked, model.answers(asked), strict=True):
        console.print(f"  {node:12} {answer[0]['label']}   {answer[0]['score']:.3f}", highlight=False)
    record, picture, page = model.look(asked[0]), out / "look.png", out / "look.html"
    record.only(layer=0).save(picture)
    record.save(page)
    console.print(
        f"\nwhere {asked[0]} looked in the first layer: [bold]{picture}[/]\nall layers, as a page: [bold]{page}[/]\n"
        f"\nThe model is in [bold]{out}[/]. Try next:\n"
        f"  regard run {out} '0:1?' '7:2?'\n"
        "  regard train graph --set model.score=gat      one ranking of all neighbours\n"
        "  regard train cora --set data.train=my.npz     your own graph\n",
        highlight=False,
    )
    return model
