"""Whether a module is as it was when it was loaded, so that the files it came from answer in its place.

Compared are its parts, their settings and hooks, PyTorch's version counter of each weight, and a sum of the bytes of
each: the counters do not see what is written through `.data`. The sum costs as much as reading the weights once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import torch
from torch import Tensor, nn

PLAIN = (bool, int, float, str)
WORD = 8  # bytes that are added as one number


class Unchanged:
    """What a module was. A copy of it is another module."""

    def __init__(self, module: nn.Module) -> None:
        self._was = _state_of(module)

    def holds(self, module: nn.Module) -> bool:
        """Whether the module still is what it was."""
        return _state_of(module) == self._was


def _state_of(module: nn.Module) -> list[object]:
    found: list[object] = []
    for part in module.modules():
        found += [id(part), type(part), "forward" in vars(part), len(part._forward_hooks), len(part._forward_pre_hooks)]
        found += [each for each in vars(part).items() if type(each[1]) in PLAIN and not each[0].startswith("_")]
        found += [_state_of_tensor(tensor) for tensor in _tensors(part)]
    return found


def _tensors(part: nn.Module) -> Iterator[Tensor]:
    for tensor in (*part._parameters.values(), *part._buffers.values()):
        if tensor is not None:
            yield tensor


def _state_of_tensor(tensor: Tensor) -> tuple[object, ...]:
    version = None if tensor.is_inference() else tensor._version
    return id(tensor), tensor.data_ptr(), tensor.dtype, tensor.shape, version, _sum(tensor)


def _sum(tensor: Tensor) -> object:
    """The bytes of a tensor, eight at a time, added without regard to overflow: the order of adding does not matter."""
    if tensor.device.type != "cpu":
        return tensor.device
    content = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy()
    whole = len(content) // WORD * WORD
    return int(content[:whole].view(numpy.uint64).sum(dtype=numpy.uint64)), content[whole:].tobytes()
