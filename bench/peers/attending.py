"""One attention, forward and backward, on made-up queries, keys and values: what the scripts of `long` share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from answering import Run, Settings, peak_memory
from torch import Tensor, nn

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


class Given(nn.Module):
    """A map that gives the same tensor for every input: in place of a linear map that is not to be measured."""

    def __init__(self) -> None:
        super().__init__()
        self.tensor = torch.empty(0)

    def forward(self, _: Tensor) -> Tensor:
        return self.tensor


def attending(settings: Settings, make: Callable[[], Attention], *, merged: bool = False) -> Run:
    """Queries, keys and values are (1, heads, length, width), or (1, length, heads · width) if `merged`.

    A run gives its seconds, and how far the memory of the process has grown since its packages were imported.
    """
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak of importing is forgotten
    before = peak_memory()
    length, heads, width = settings["length"], settings["heads"], settings["width"]
    shape = (1, length, heads * width) if merged else (1, heads, length, width)
    parts = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    above = torch.randn(shape)
    attention = make()

    def run(_: Settings) -> dict[str, float]:
        begin = time.perf_counter()
        attention(*parts).backward(above)
        seconds = time.perf_counter() - begin
        for part in parts:
            part.grad = None
        return {"seconds": seconds, "growth_mb": peak_memory() - before}

    return run
