"""The machine's limit: how fast it multiplies large matrices."""

from __future__ import annotations

import time

import torch
from answering import Run, Settings, answer

SIZE, TIMES = 2048, 4


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(0)
    pairs = {
        str(kind).removeprefix("torch."): [torch.randn(SIZE, SIZE).to(kind) for _ in range(2)]
        for kind in (torch.float32, torch.bfloat16)
    }

    def run(_: Settings) -> dict[str, float]:
        """GFLOP/s by precision: the best of a few, since a limit is what nothing disturbed."""
        return {name: 2 * SIZE**3 / min(seconds(*pair) for _ in range(TIMES)) / 1e9 for name, pair in pairs.items()}

    run({})
    return run


def seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    begin = time.perf_counter()
    left @ right
    return time.perf_counter() - begin


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
