"""Steps of one to four processes on this machine, and what their exchange and their memory do, measured."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, distributed, multiprocessing

from bench import material, scaling
from bench.cost import Size
from bench.counted import Pairs
from regard.data.pairs.batches import PairBatch
from regard.kernels.linear import set_products
from regard.training import machine, optimiser
from regard.training.config import TrainingConfig
from regard.training.distribution import Crew
from regard.training.loop import fit
from regard.training.run import Run

LENGTH = 25  # tokens of a sentence on either side
FIRST = 3  # steps that build what later ones use again
PROBES = (1 << 14, 1 << 24)  # bytes that are exchanged to find latency and bandwidth
TIMES = 7  # of each probe


@dataclass(frozen=True)
class Endless:
    """The same batch again and again."""

    batch: PairBatch

    def stream(self, *, epoch: int, position: int) -> Iterator[PairBatch]:  # noqa: ARG002 - the signature is the loop's
        while True:
            yield self.batch


def steps(size: Size, processes: int, *, threads: int, tokens: int, count: int) -> float:
    """The median of the seconds of a step, each process with a batch of so many target tokens."""
    return _started(_learn, processes, size.settings(), threads, tokens, count)


def exchanges(processes: int) -> tuple[float, float]:
    """Seconds of an all-reduce of each of the `PROBES`."""
    return _started(_exchange, processes), _started(_exchange_more, processes)


def traffic() -> float:
    """Bytes a second that one thread reads and writes."""
    torch.set_num_threads(1)
    left, right = torch.ones(1 << 24), torch.ones(1 << 24)
    seconds = _median(lambda: left.add_(right))
    return 3 * scaling.SINGLE * left.numel() / seconds


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started(work: Callable[..., float], processes: int, *given: object) -> float:
    """What the first of so many processes finds."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # DDP warns that it looks for unused parameters
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(
            _join, args=(work, processes, Path(folder), given), nprocs=processes, start_method="spawn"
        )
        return float(json.loads((Path(folder) / "found.json").read_text()))


def _join(rank: int, work: Callable[..., float], processes: int, folder: Path, given: tuple[object, ...]) -> None:
    torch.set_num_threads(1)
    if processes > 1:
        meeting = f"file://{folder / 'meeting'}"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=processes)
    found = work(*given)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    if processes > 1:
        distributed.destroy_process_group()


def _learn(settings: dict[str, int], threads: int, tokens: int, count: int) -> float:
    size, crew = Size(**settings), Crew.here()
    config = TrainingConfig(steps=FIRST + count, threads=threads, warmup=1000)
    device = machine.prepare(config)
    model = material.build(size, dropout=0.1)
    set_products(model, machine.choose_precision(config.precision, device))
    batch = Pairs().batch(max(tokens // LENGTH, 1), LENGTH, size.vocabulary)
    run = Run(model=model, optimiser=optimiser.build(model, config), batches=Endless(batch), config=config)
    moments: list[float] = []
    fit(run, Pairs(), schedule=lambda _: 1e-4, watchers=[lambda _: moments.append(time.perf_counter())], crew=crew)
    laps = [after - before for before, after in pairwise(moments)]
    return statistics.median(laps[FIRST - 1 :])


def _exchange() -> float:
    return _probe(PROBES[0])


def _exchange_more() -> float:
    return _probe(PROBES[1])


def _probe(size: int) -> float:
    numbers: Tensor = torch.ones(size // scaling.SINGLE)
    return _median(lambda: distributed.all_reduce(numbers))


def _median(do: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TIMES + 1):
        begin = time.perf_counter()
        do()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])
