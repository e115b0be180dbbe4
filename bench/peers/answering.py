"""The side of a worker: questions on standard input, answers on standard output, one JSON object a line.

    {"do": "prepare", …settings}   →  {"versions": {…}}                 once
    {"do": "run", …settings}       →  {figures…, "peak_mb": …}          as often as asked

An answer {"error": …} says what went wrong. Whatever a library prints goes to standard error. No packages are needed.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
Run = Callable[[Settings], dict[str, Any]]


def answer(prepare: Callable[[Settings], Run], *, packages: tuple[str, ...] = ()) -> None:
    """Serve until standard input ends: `prepare(settings)` makes the function that `run` calls."""
    replies = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    run: Run | None = None
    for line in sys.stdin:
        settings = json.loads(line)
        reply: dict[str, Any]
        try:
            if settings.pop("do") == "prepare":
                run = prepare(settings)
                reply = {"versions": {name: metadata.version(name) for name in packages}}
            else:
                assert run is not None, "asked to run before it was prepared"
                reply = {**run(settings), "peak_mb": peak_memory()}
        except Exception as error:  # whatever a peer raises is told, not survived in silence
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies)


def peak_memory() -> float:
    """The most memory this process ever had resident, in megabytes (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status does not say VmHWM")
