"""`regard demo spelling`: from nothing to a model that pronounces words, its scores, and what it looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.api.training import train
from regard.api.translator import Translator
from regard.look.terminal import heat_map

WORDS = ("attention", "transformer", "queue", "regard")


def run(words: Sequence[str], *, out: Path, show: Console | None = None) -> Translator:
    """Train the embedded recipe in `out` (or resume it), score it, pronounce words, draw an alignment."""
    console = show or Console()
    console.print("[bold]regard demo[/]: learning how English words are spoken, from the CMU Pronouncing Dictionary\n")
    model = train("demo", out=out, show=True)
    assert isinstance(model, Translator)
    scores = model.report["scores"]
    console.print(
        f"\non {len(model.references()):,} words it has never seen: "
        f"[bold]{scores['word_error']:.1f} %[/] of words wrong, "
        f"[bold]{scores['symbol_error']:.1f} %[/] of sounds wrong\n"
    )
    asked = [word for text in words for word in text.lower().split()] or list(WORDS)
    answers = model.answers(asked)
    for word, found in zip(asked, answers, strict=True):
        console.print(f"  {word:16} {found[0].text}", highlight=False)
    source, target, weights = model.alignment(asked[0], answers[0][0])
    console.print("\nwhat it looked at in the word (down) for each sound (across):\n")
    console.print(heat_map(weights.T, source, target, colour=console.color_system is not None))
    console.print(
        f"\nthe model is in [bold]{out}[/]: weights, recipe, report and learning curve. Try next:\n"
        f"  regard run {out} your words here\n"
        f"  regard evaluate {out}\n"
        "  regard train g2p                                  the same, at full length\n"
        "  regard train pairs --set data.train=my.tsv        your own pairs of text\n",
        highlight=False,
    )
    return model
