"""The processes that train one model together. A process that is alone does nothing here.

`torchrun` and `regard train --processes` start them, and say by RANK and WORLD_SIZE in their environment which process
is which. They meet in `joined`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

from regard.data.streams import Share
from regard.durable import DiskFullError
from regard.errors import RegardError
from regard.tasks.base import Score
from regard.training import randomness

Made = TypeVar("Made")


@contextmanager
def joined() -> Iterator[None]:
    """Within, this process is one of those that were started together; nothing happens in a process that is alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or distributed.is_initialized():
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


@dataclass(frozen=True)
class Crew:
    """This process among `world` of them."""

    rank: int = 0
    world: int = 1

    @classmethod
    def here(cls) -> Crew:
        """The crew that this process belongs to."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def share(self) -> Share:
        """The part of every epoch that this process learns from."""
        return Share(self.rank, self.world)

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    def first(self, make: Callable[[], None]) -> None:
        """Let the leading process make something while the others wait for it."""
        if self.leads:
            make()
        if self.world > 1:
            distributed.barrier()

    def in_turn(self, make: Callable[[], Made]) -> Made:
        """Let the leading process make something that is kept on disk, and then the others, who find it there. All wait
        for the last one, because the leading process may clean up afterwards."""
        if self.leads:
            made = make()
        if self.world > 1:
            distributed.barrier()
        if not self.leads:
            made = make()
        if self.world > 1:
            distributed.barrier()
        return made

    def total(self, number: Tensor) -> Tensor:
        """The sum over all processes, which replaces the number."""
        if self.world > 1:
            distributed.all_reduce(number)
        return number

    def agree(self, flag: bool) -> bool:
        """What the leading process says, for decisions by the clock that all must take alike."""
        if self.world == 1:
            return flag
        said = torch.tensor(flag)
        distributed.broadcast(said, src=0)
        return bool(said)

    def largest(self, number: int) -> int:
        """The largest number of all processes: a signal may reach only one of them."""
        if self.world == 1:
            return number
        found = torch.tensor(number)
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
        return int(found)

    def gathered(self, value: Made) -> list[Made]:
        """What each process says, in their order; it must be a value that JSON keeps."""
        if self.world == 1:
            return [value]
        content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world)]
        distributed.all_gather(sizes, torch.tensor([len(content)]))
        said = [torch.zeros(int(max(sizes)), dtype=torch.uint8) for _ in sizes]
        distributed.all_gather(said, nn.functional.pad(content, (0, len(said[0]) - len(content))))
        return [json.loads(bytes(each[:size].numpy())) for each, size in zip(said, map(int, sizes), strict=True)]

    def each(self, make: Callable[[], Made]) -> list[Made]:
        """What every process makes, in their order. If one of them cannot, all raise its error."""
        made: list[Made] = []
        reason, full = "", False
        try:
            made.append(make())
        except DiskFullError as error:
            reason, full = error.reason, True
        except RegardError as error:
            reason = str(error)
        said = self.gathered((made, reason, full))
        for _, failed, of_disk in said:
            if failed:
                raise DiskFullError(failed) if of_disk else RegardError(failed)
        return [found for (found,), _, _ in said]

    def told(self, scores: Mapping[str, Score]) -> dict[str, Score]:
        """The scores as the leading process found them, so that all take the same decisions."""
        said = self.gathered([(name, score.value, score.signature) for name, score in scores.items()])
        return {name: Score(value, how) for name, value, how in said[0]}

    def seed(self, number: int, step: int) -> None:
        """Seed this process for a step, so that processes draw different numbers, and the same ones after a resume. A
        process that is alone draws on, and its checkpoints have its random state."""
        if self.world > 1:
            randomness.seed(randomness.derived(number, step, self.rank))

    def wrap(self, learner: nn.Module) -> nn.Module:
        """The learner, with gradients averaged over all processes; a loss need not use every parameter."""
        if self.world == 1:
            return learner
        # gradients are views of what is exchanged, so that they are not copied there and back
        return nn.parallel.DistributedDataParallel(learner, find_unused_parameters=True, gradient_as_bucket_view=True)

    @staticmethod
    def quiet(learner: nn.Module, *, until: bool) -> AbstractContextManager[None]:
        """Within, gradients are summed here and not exchanged yet, `until` the last batch of a step."""
        if isinstance(learner, nn.parallel.DistributedDataParallel):
            return nullcontext() if until else learner.no_sync()
        exchange = getattr(learner, "set_requires_gradient_sync", None)  # FSDP2 gives this to its modules
        if exchange is not None:
            exchange(until)
        return nullcontext()
