"""Several batches at once, each in a thread of its own.

The products of one step of a small model are too small to divide among threads. So each thread computes whole products
for its own batch, and the threads share only the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import nn

from regard.attention.recorder import recorded
from regard.decoding.protocol import evaluation

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def side_by_side(model: nn.Module, work: Callable[[Batch], Result], batches: Iterable[Batch]) -> list[Result]:
    """work(batch) of each, in order: on a CPU as many at once as torch has threads.

    `work` must not record the model. While weights are recorded, batches run one after the other in this thread.
    """
    waiting, threads = list(batches), torch.get_num_threads()
    workers = min(threads, len(waiting))
    if workers < 2 or recorded() or any(weight.device.type != "cpu" for weight in model.parameters()):
        return [work(batch) for batch in waiting]
    share = threads // workers
    try:
        with (
            evaluation(model),
            ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(share,)) as pool,
        ):
            return list(pool.map(work, waiting))
    finally:
        torch.set_num_threads(threads)  # new threads of torch's begin with the number that was set last
