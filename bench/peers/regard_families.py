"""One family of models, trained and scored by regard."""

from __future__ import annotations

import time
from typing import Any

from answering import Run, Settings, answer

from regard.api import train

TOLD = ("scores", "parameters", "steps", "tokens", "seconds", "tokens_per_second", "flops")


def prepare(settings: Settings) -> Run:
    def run(_: Settings) -> dict[str, Any]:
        report = train(settings["recipe"], out=settings["out"], changes=settings["changes"]).report
        return {**{name: report[name] for name in TOLD}, "processor_seconds": time.process_time()}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
