"""What JoeyNMT's train.log says of time. No packages are needed."""

from __future__ import annotations

import re
from datetime import datetime

LOGGED = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - \w+ - \S+ - (.*)")


def learning_curve(lines: list[str]) -> list[tuple[float, float]]:
    """Seconds spent on learning, and BLEU then, from the lines of train.log.

    A step that is validated is logged first; then come what the validation says and its examples, and learning goes on.
    """
    curve: list[tuple[float, float]] = []
    learned, validating = 0.0, False
    resumed: float | None = None
    stepped: float | None = None
    for line in lines:
        found = LOGGED.match(line)
        if not found:
            continue
        at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()
        said = found[2]
        if said.startswith(("EPOCH", "Epoch")):  # learning goes on, or a step of it is told
            validating = False
            stepped = at if "Step:" in said else stepped
            resumed = at if resumed is None else resumed
        elif said.startswith("Evaluation result") and resumed is not None and stepped is not None:
            learned += stepped - resumed
            curve.append((learned, float(re.findall(r"bleu:\s*([\d.]+)", said)[0])))
            validating = True
        if validating:
            resumed = at
    return curve
