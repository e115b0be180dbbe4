"""Processes that learn together, forked from the test: torch is loaded already."""

from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # these two take seconds, which every process would need for itself
import torch.distributed.fsdp
from torch import distributed, multiprocessing

from regard.training.distribution import Crew

Work = Callable[[Crew], None]


def run_together(work: Work, *, world: int, folder: Path) -> None:
    """`work` in `world` processes; an error of one of them is raised here."""
    number = len(list(folder.glob("meeting-*")))
    meeting = folder / f"meeting-{number}"
    meeting.touch()
    multiprocessing.start_processes(_work, args=(work, world, meeting), nprocs=world, start_method="fork")


def _work(rank: int, work: Work, world: int, meeting: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    work(Crew.here())
    distributed.destroy_process_group()
