"""`regard demo captions`: from nothing to a model that describes drawn pictures, its scores, and where it looked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.api.model import Model
from regard.api.training import train

SHOWN = 4  # held-out pictures that are described, if none are given


def run(pictures: Sequence[str], *, out: Path, show: Console | None = None) -> Model:
    """Train the embedded recipe in `out` (or resume it), score it, describe pictures, and draw where words looked."""
    console = show or Console()
    console.print("[bold]regard demo captions[/]: learning to describe pictures of shapes, which are drawn here\n")
    model = train("captions", out=out, show=True)
    scores = model.report["scores"]
    console.print(
        f"\non pictures it has never seen, [bold]{scores['exact']:.1f} %[/] of captions are exactly right, and for "
        f"[bold]{scores['pointing']:.1f} %[/] of the words that name an object\nthe place that it looks at most lies "
        "inside that object\n"
    )
    asked = list(pictures) or list(model.task.lines(model.examples()))[:SHOWN]
    for name, caption in zip(asked, model([*asked]), strict=True):
        console.print(f"  {name}\n    [bold]{caption}[/]", highlight=False)
    record, picture, page = model.look(asked[0]), out / "looked.png", out / "look.html"
    record.save(picture)
    record.save(page)
    console.print(
        f"\nwhere each word of the first caption looked: [bold]{picture}[/], and as a page [bold]{page}[/].\n"
        f"The model is in [bold]{out}[/]. Try next:\n"
        f'  regard run {out} "scene:red circle 14 20 11, blue square 37 24 6"       another scene\n'
        f"  regard look {out}                                                 a page for any picture\n"
        "  regard train captions --set model.choice=hard                      one place at a time\n"
        "  regard train captions --set data.train=captions.tsv --set data.size=96    your own pictures\n",
        highlight=False,
    )
    return model
