"""Faults of one of two processes: both skip the same steps, say the same, and start again with more parts."""

import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from test_distribution import WORLD, InParts, Shared, Union, learned
from torch import Tensor, distributed, multiprocessing, nn
from toy_run import Batch, Predictor, config

from regard.data.streams import Share
from regard.errors import RegardError
from regard.training import faults
from regard.training.distribution import Crew
from regard.training.train import train
from regard.training.watchers import Interrupted
from regard.training.weights import weights_of

PLACE = (1, 3)  # epoch and position of the batches that one process has trouble with


class Holed(InParts):
    """A loss that is not finite for one batch of one process."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        hole = self.rank == 1 and (batch.epoch, batch.position) == PLACE
        return super().loss(model, batch) * (math.inf if hole else 1.0)


class Limited(Holed):
    """A loss that lacks memory for more than seven rows, in one process."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if self.rank == 1 and batch.targets > 7:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return InParts.loss(self, model, batch)


class Vanishing(Shared):
    """Data that one process cannot read from a place on."""

    def epoch(self, epoch: int, *, position: int = 0) -> Any:
        for batch in super().epoch(epoch, position=position):
            if self.share.rank == 1 and (batch.epoch, batch.position) == PLACE:
                raise FileNotFoundError(2, "No such file or directory", "shard-7.arrow")
            yield batch


class Without(Union):
    """The batches that all processes learn from at the same time, without those of the place."""

    def plan(self, epoch: int, position: int = 0) -> Any:
        return [part for part in super().plan(epoch, position) if (epoch, part.position) != PLACE]


def told(folder: Path, task: Any, batches: Any, crew: Crew, **changes: Any) -> str:
    """Train in a directory, and return how that ended."""
    settings = config(validate_every=0, accumulate=1, steps=13, checkpoint_every=100, ema=0.9, **changes)
    model = Predictor(dropout=0)
    try:
        train(
            model, task, batches, config=settings, directory=folder, names={"task": "follow", "kind": "toy"}, crew=crew
        )
    except Interrupted as interrupted:
        return f"{interrupted.code} {interrupted}"
    except (RegardError, RuntimeError) as error:
        return f"{type(error).__name__} {error}"
    return "done"


def work(rank: int, folder: Path, name: str) -> None:
    """What each process does. Its results are files, for the tests to read."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=WORLD)
    crew = Crew.here()
    if name == "skips":
        run = learned(Shared(crew.share), crew, task=Holed(rank), accumulate=1)
        found = {"skipped": run.skipped, "weights": [float(each.sum()) for each in weights_of(run.model).values()]}
    else:
        task = Limited(rank) if name == "memory" else Holed(rank)
        batches = Vanishing(crew.share) if name == "data" else Shared(crew.share)
        found = {"told": told(folder / "run", task, batches, crew, max_skips=0)}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # without a farewell, which a process that another one waits for does not say either


def together(folder: Path, name: str) -> list[dict[str, Any]]:
    (folder / "meeting").unlink(missing_ok=True)
    multiprocessing.start_processes(work, args=(folder, name), nprocs=WORLD, start_method="fork")
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORLD)]


def test_all_processes_skip_the_step_that_one_cannot_make(tmp_path: Path) -> None:
    first, second = together(tmp_path, "skips")
    assert first == second
    assert first["skipped"] == 1
    alone = learned(Without(Share()), task=InParts(), accumulate=1)
    wanted = [float(each.sum()) for each in weights_of(alone.model).values()]
    assert first["weights"] == pytest.approx(wanted, rel=1e-3, abs=1e-4)


def test_all_processes_end_when_one_cannot_learn(tmp_path: Path) -> None:
    for rank, each in enumerate(together(tmp_path, "numbers")):
        assert "RegardError the loss is inf after step 4" in each["told"]
        assert "step 4 is saved" in each["told"]
        assert (tmp_path / "run" / f"not-learned-{rank}.json").exists()
    assert (tmp_path / "run" / "checkpoints" / "step-00000004").is_dir()


def test_all_processes_name_the_file_that_one_cannot_read(tmp_path: Path) -> None:
    first, second = together(tmp_path, "data")
    assert first == second
    assert first["told"].startswith("RegardError shard-7.arrow cannot be read any more (No such file or directory); ")
    assert (tmp_path / "run" / "checkpoints" / "step-00000004").is_dir()


def test_processes_of_which_one_lacks_memory_start_again_with_more_parts(tmp_path: Path) -> None:
    first, second = together(tmp_path, "memory")
    assert first["told"].startswith("RuntimeError")  # the other one left it alone
    assert second["told"].startswith(
        "75 there is not enough memory for a step; run the same command to resume with each batch divided"
    )
    assert faults.noted_parts(tmp_path / "run" / "checkpoints") == 2
    assert together(tmp_path, "memory") == [{"told": "done"}] * WORLD
    assert json.loads((tmp_path / "run" / "report.json").read_text())["parts"] == 2
