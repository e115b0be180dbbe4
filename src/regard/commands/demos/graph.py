"""`regard demo graph`: nodes that ask their neighbours, what attention finds out, and what a mean cannot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.api.model import Model
from regard.api.training import train

ASKED = "0:3?"


def run(inputs: Sequence[str], *, out: Path, show: Console | None = None) -> Model:
    """Train the embedded recipe in `out` (or resume it), score it, answer some nodes, draw what one looked at."""
    console = show or Console()
    console.print("[bold]regard demo graph[/]: nodes ask for a key, and one of their neighbours has the answer\n")
    model = train("graph", out=out, show=True)
    chance = 100 / len(model.answers([ASKED])[0])
    console.print(
        f"\non nodes of groups it has never seen: [bold]{model.report['scores']['accuracy']:.1f} %[/] right; "
        f"a mean over the neighbours is the same for all nodes of a group, and gets {chance:.0f} %\n"
    )
    asked = list(inputs) or [ASKED]
    for node, answer in zip(asked, model.answers(asked), strict=True):
        console.print(f"  {node:12} {answer[0]['label']}   {answer[0]['score']:.3f}", highlight=False)
    picture = out / "look.png"
    record = model.look(asked[0])
    record.save(picture)
    record.save(out / "look.html")
    console.print(
        f"\n{picture} shows where node {asked[0]} looked, {out / 'look.html'} is the page. Try next:\n"
        f"  regard run {out} '0:1?' '7:2?'\n"
        "  regard train graph --set model.score=gat          the score that ranks all neighbours alike\n"
        "  regard train cora --set data.train=my.npz         your own graph\n",
        highlight=False,
    )
    return model
