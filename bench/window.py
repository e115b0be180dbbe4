"""Windowed attention against all pairs, forward and backward, in one run: time and memory by length.

    python -m bench window [--lengths 2048 4096 8192 16384] [--width 256] [--repeats 3] [--json]

Both go through `attend` on the same tensors (batch 1, 8 heads of width 64), alternately; times are medians. Memory is
the peak of what tensors hold beyond queries, keys and values, counted at every operation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import attend
from regard.attention.patterns import Window
from regard.kernels.allocator import tune_allocator

HEADS, WIDTH = 8, 64


class Peak(TorchDispatchMode):
    """The largest number of bytes held at once by storages made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.held += size
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.held -= size


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench window", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096, 8192, 16384])
    parser.add_argument("--width", type=int, default=256, help="of the window, in positions")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    tune_allocator()  # as training does
    rows = [measure(length, options.width, options.repeats) for length in options.lengths]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(
        "length",
        "all pairs, ms",
        "window, ms",
        "times faster",
        "window, MB",
        title=f"window {options.width}, 8 heads × 64",
    )
    for row in rows:
        table.add_row(
            *(f"{row[name]:,.0f}" for name in ("length", "all_ms", "window_ms")),
            f"{row['ratio']:.1f}",
            f"{row['window_mb']:,.0f}",
        )
    Console().print(table)


def measure(length: int, width: int, repeats: int) -> dict[str, float]:
    """Medians at one length."""
    torch.manual_seed(0)
    parts = [torch.randn(1, HEADS, length, WIDTH, requires_grad=True) for _ in range(3)]
    above = torch.randn(1, HEADS, length, WIDTH)

    def run(pattern: Window | None) -> None:
        torch.autograd.grad(attend(*parts, pattern=pattern), parts, above)

    window = Window(width)
    run(window)
    times: dict[str, list[float]] = {"all": [], "window": []}
    for _ in range(repeats):
        times["window"].append(_milliseconds(lambda: run(window)))
        times["all"].append(_milliseconds(lambda: run(None)))
    ratios = [slow / fast for slow, fast in zip(times["all"], times["window"], strict=True)]
    with Peak() as peak:
        run(window)
    return {
        "length": length,
        "all_ms": statistics.median(times["all"]),
        "window_ms": statistics.median(times["window"]),
        "ratio": statistics.median(ratios),
        "window_mb": peak.peak / 1e6,
    }


def _milliseconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)
