"""A model whose weights are divided among the processes that train it: FSDP2 (Zhao 2023, after Rajbhandari 2020).

Of W processes each keeps about 1/W of the rows of every weight, of its gradient and of its moments. The weights of a
block are gathered when the block is computed, forward and backward; gradients are averaged, and each process gets those
of its own rows. What is judged and kept is a whole model, whose weights are there only while they are needed.

Modules of torch that take seconds to load are imported where they are used.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, distributed, nn

from regard.data.streams import Batch
from regard.layers.blocks import Block
from regard.layers.experts import Experts
from regard.layers.two_stream import TwoStreamBlock
from regard.tasks.modules import Continues
from regard.training.learner import Learner, Loss

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

BLOCKS = (Block, TwoStreamBlock)  # gathered one at a time where they stand in a list, which every batch goes through


class Shards:
    """A model in parts. `learner` learns, with the rows of this process; `whole` is the model that users know.

    `whole` has the right names and shapes at all times, and weights only inside `gathered` and after `merged`.
    """

    def __init__(self, whole: nn.Module, task: Loss[Batch], *, rank: int, world: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        self.whole, self.rank, self.world = whole, rank, world
        self.learner = Learner(_moved(whole), task)
        _forget(whole, [parameter.shape for parameter in self.model.parameters()])
        _without_scalars(self.model)
        mesh = init_device_mesh(next(whole.parameters()).device.type, (world,))
        for part in [*_blocks(self.model), self.learner]:
            experts = any(isinstance(module, Experts) for module in _own_modules(part))
            group: FSDPModule = fully_shard(part, mesh=mesh)
            # a process may use experts that another does not use, which takes part with gradients of 0
            group.set_reduce_scatter_unused_params(experts, recurse=False)
        choosing = [module for module in self.model.modules() if isinstance(module, Experts)]
        self._experts = [expert for module in choosing for expert in module.experts]
        self._used = torch.zeros(len(self._experts), dtype=torch.int32)
        for number, expert in enumerate(self._experts):
            expert.register_forward_hook(partial(self._note, number))

    @property
    def model(self) -> nn.Module:
        """The model that learns. Its parameters are DTensors, and its single numbers vectors of one."""
        return self.learner.module

    def leave_unused(self, optimiser: torch.optim.Optimizer) -> None:
        """Let an optimiser leave experts as they are that no process has used since its last step, as it does with
        weights that a process which is alone has not used."""

        def drop(*_: object) -> None:
            distributed.all_reduce(self._used, distributed.ReduceOp.MAX)
            for expert, used in zip(self._experts, self._used.tolist(), strict=True):
                for parameter in expert.parameters() if not used else ():
                    parameter.grad = None
            self._used.zero_()

        if self._experts:
            optimiser.register_step_pre_hook(drop)

    def _note(self, number: int, *_: object) -> None:
        self._used[number] = 1

    @contextmanager
    def gathered(self) -> Iterator[nn.Module]:
        """Within, every process has the whole model with its present weights. All processes must enter."""
        shapes = [parameter.shape for parameter in self.whole.parameters()]
        with torch.no_grad():
            for buffer, present in zip(self.whole.buffers(), self.model.buffers(), strict=True):
                buffer.copy_(present)
            for parameter, divided in zip(self.whole.parameters(), self.model.parameters(), strict=True):
                parameter.data = cast("DTensor", divided.detach()).full_tensor().view(parameter.shape)
        try:
            yield self.whole
        finally:
            _forget(self.whole, shapes)

    def merged(self) -> nn.Module:
        """The whole model with room for weights, which are still to be loaded."""
        for parameter in self.whole.parameters():
            parameter.data = parameter.new_empty(parameter.shape)
        return self.whole

    def rows(self, length: int) -> slice:
        """Which rows of a tensor of that length this process has: as torch.chunk divides it."""
        size = -(-length // self.world)
        return slice(min(self.rank * size, length), min((self.rank + 1) * size, length))


def local(tensor: Tensor) -> Tensor:
    """The rows of a tensor that this process has; all of them where it is not divided."""
    return cast("DTensor", tensor).to_local() if is_divided(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """A tensor with the rows of all processes. All must ask for it, if it is divided."""
    return cast("DTensor", tensor).full_tensor() if is_divided(tensor) else tensor


def is_divided(tensor: Tensor) -> bool:
    return hasattr(tensor, "to_local")


def like(divided: Tensor, rows: Tensor) -> Tensor:
    """Rows of this process as a tensor that is divided in the same way as another one."""
    if not is_divided(divided):
        return rows
    from torch.distributed.tensor import DTensor

    model = cast(DTensor, divided)
    return DTensor.from_local(
        rows.view(model.to_local().shape),
        model.device_mesh,
        model.placements,
        run_check=False,
        shape=model.shape,
        stride=model.stride(),
    )


def _moved(whole: nn.Module) -> nn.Module:
    """A copy of a model, which takes over its weights: there is never a second set of them."""
    weights = [parameter.data for parameter in whole.parameters()]
    for parameter in whole.parameters():
        parameter.data = parameter.new_empty(0)
    moved = copy.deepcopy(whole)
    for parameter, weight in zip(moved.parameters(), weights, strict=True):
        parameter.data = weight
    return moved


def _forget(whole: nn.Module, shapes: list[torch.Size]) -> None:
    """Free the weights of a model; one number stands for all of each."""
    for parameter, shape in zip(whole.parameters(), shapes, strict=True):
        parameter.data = parameter.new_zeros(()).expand(shape)


def _without_scalars(model: nn.Module) -> None:
    """Make single numbers vectors of one, which can be divided: only the first process has something of them."""
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() == 0:
                setattr(module, name, nn.Parameter(parameter.data.view(1), requires_grad=parameter.requires_grad))


def _own_modules(part: nn.Module) -> list[nn.Module]:
    """The modules of a part that are not in a part of their own yet."""
    from torch.distributed.fsdp import FSDPModule

    divided = {id(inner) for module in part.modules() if isinstance(module, FSDPModule) for inner in module.modules()}
    return [module for module in part.modules() if id(module) not in divided]


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The blocks of a model whose weights are used by calling them alone.

    A model that continues a memory makes keys and values of it outside of its blocks.
    """
    if isinstance(model, Continues):
        return []
    listed = [block for each in model.modules() if isinstance(each, nn.ModuleList) for block in each]
    owners: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    return [
        block
        for block in listed
        if isinstance(block, BLOCKS) and all(owners[id(parameter)] == 1 for parameter in block.parameters())
    ]
