"""The processes that train one model together. A process that is alone does nothing here.

torch.distributed must have been initialised before, as `torchrun` and `init_process_group` do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

from regard.data.streams import Share

Made = TypeVar("Made")


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
        """Let the leading process make something that is kept on disk, and then the others, who find it there."""
        if self.leads:
            made = make()
        if self.world > 1:
            distributed.barrier()
        return made if self.leads else make()

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

    def wrap(self, learner: nn.Module) -> nn.Module:
        """The learner, with gradients averaged over all processes; a loss need not use every parameter."""
        if self.world == 1:
            return learner
        return nn.parallel.DistributedDataParallel(learner, find_unused_parameters=True)

    @staticmethod
    def quiet(learner: nn.Module, *, until: bool) -> AbstractContextManager[None]:
        """Within, gradients are summed here and not exchanged yet, `until` the last batch of a step."""
        if until or not isinstance(learner, nn.parallel.DistributedDataParallel):
            return nullcontext()
        return learner.no_sync()
