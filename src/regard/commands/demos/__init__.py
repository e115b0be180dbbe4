"""`regard demo NAME`: each demo is one file, which trains an embedded recipe, scores it and shows what it looks at."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

DEFAULT = "spelling"

# name → the module, which has `run`, and what is learned
DEMOS = {
    "spelling": ("regard.commands.demos.spelling", "English words to their sounds"),
    "captions": ("regard.commands.demos.captions", "drawn pictures to captions"),
    "graph": ("regard.commands.demos.graph", "nodes of a graph to what their neighbours know"),
    "series": ("regard.commands.demos.series", "monthly numbers to the next ones, with intervals"),
}


class Demo(Protocol):
    """`inputs` are answered after the training; without any, the demo has its own."""

    def __call__(self, inputs: Sequence[str], *, out: Path) -> object: ...


def chosen(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The name of the demo that the words ask for, and the inputs after it; without a name, the default."""
    if words and words[0] in DEMOS:
        return words[0], words[1:]
    return DEFAULT, words


def demo(name: str) -> Demo:
    """The function that runs a demo."""
    found: Demo = importlib.import_module(DEMOS[name][0]).run
    return found
