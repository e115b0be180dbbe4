"""How long each line takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from answering import Run, Settings


def timed(translate: Callable[[str], str]) -> Run:
    """Answers to the lines in turn, and the seconds of each."""

    def run(asked: Settings) -> dict[str, Any]:
        seconds, answers = [], []
        for line in asked["lines"]:
            begin = time.perf_counter()
            answers.append(translate(line))
            seconds.append(time.perf_counter() - begin)
        return {"seconds": seconds, "answers": answers}

    return run
