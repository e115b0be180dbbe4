"""The two residual blocks of convolutional networks: one with anything in the place of its convolution over space.

N pictures  C channels  R rows  S columns
"""

import math
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor, nn
from torch.nn import functional as F

EXPANSION = 4  # the channels of a block, in widths of what is in it; He 2016
GROUPS = 8  # at most, of channels that are normed together


class Bottleneck(nn.Module):
    """Few channels while looking around, many between blocks.

        y = relu( x′ + norm(W₂ relu(norm(s(relu(norm(W₁ x)))))) )                        He 2016, figure 5, on the right

    x (N, C, R, S) → (N, 4·`width`, R, S).   s is `spatial`: width → width channels, such as a convolution of 3 × 3 or
    attention. With `halve`, the mean of each 2 × 2 results is taken: (N, 4·`width`, ⌈R/2⌉, ⌈S/2⌉). x′ is x, or a linear
    map of x where its shape changes. Norms are of groups of channels (Wu 2018), so that no picture depends on
    the others of its batch; the last one starts at 0, so that the block starts as x′.
    """

    def __init__(self, channels: int, *, width: int, spatial: nn.Module, halve: bool = False) -> None:
        super().__init__()
        self.channels, self.halve = EXPANSION * width, halve
        self.reduce = nn.Conv2d(channels, width, 1, bias=False)
        self.spatial = spatial
        self.expand = nn.Conv2d(width, self.channels, 1, bias=False)
        self.norms = nn.ModuleList([group_norm(width), group_norm(width)])
        self.last_norm = _last_norm(self.channels)
        self.shortcut = _shortcut(channels, self.channels, halve=halve)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](self.reduce(x)).relu()
        y = self.spatial(y)
        y = self.norms[1](halved(y) if self.halve else y).relu()
        y = self.last_norm(self.expand(y))
        return (self.shortcut(halved(x) if self.halve else x) + y).relu()


class Basic(nn.Module):
    """Two convolutions of 3 × 3.

        y = relu( x′ + norm(W₂ ∗ relu(norm(W₁ ∗ x))) )                                    He 2016, figure 5, on the left

    x (N, C, R, S) → (N, `width`, R, S), or (N, `width`, ⌈R/2⌉, ⌈S/2⌉) with `halve`: then the first convolution takes
    every second place. x′ and the norms are those of a bottleneck. A network of few channels is faster with this block
    than with bottlenecks of as many parameters, since fewer channels are normed and kept for the backward pass.
    """

    def __init__(self, channels: int, *, width: int, halve: bool = False) -> None:
        super().__init__()
        self.channels, self.halve = width, halve
        self.first = nn.Conv2d(channels, width, 3, stride=2 if halve else 1, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = group_norm(width)
        self.last_norm = _last_norm(width)
        self.shortcut = _shortcut(channels, width, halve=halve)

    def forward(self, x: Tensor) -> Tensor:
        y = self.last_norm(self.second(self.norm(self.first(x)).relu()))
        return (self.shortcut(halved(x) if self.halve else x) + y).relu()


def halved(x: Tensor) -> Tensor:
    """The mean of each 2 × 2 pixels; at an odd edge, of those that there are. (N, C, R, S) → (N, C, ⌈R/2⌉, ⌈S/2⌉)"""
    return F.avg_pool2d(x, 2, ceil_mode=True)


def bottlenecks(
    layers: Sequence[int], width: int, spatial: Callable[[int], nn.Module]
) -> Iterator[tuple[int, Bottleneck]]:
    """The bottlenecks of a residual network after a stem of `width` channels, each with the number of its stage from 0.

    `spatial(width)` makes what is in the middle of a block.
    """
    channels = width
    for stage, halve in _places(layers):
        block = Bottleneck(channels, width=width << stage, spatial=spatial(width << stage), halve=halve)
        yield stage, block
        channels = block.channels


def basics(layers: Sequence[int], width: int) -> Iterator[tuple[int, Basic]]:
    """The basic blocks of a residual network after a stem of `width` channels, each with the number of its stage."""
    channels = width
    for stage, halve in _places(layers):
        block = Basic(channels, width=width << stage, halve=halve)
        yield stage, block
        channels = block.channels


def _places(layers: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """The stage of each block, and whether it halves: from stage to stage, rows and columns do, and channels double."""
    for stage, count in enumerate(layers):
        for number in range(count):
            yield stage, stage > 0 and number == 0


def _shortcut(channels: int, outputs: int, *, halve: bool) -> nn.Module:
    return nn.Conv2d(channels, outputs, 1, bias=False) if halve or channels != outputs else nn.Identity()


def _last_norm(width: int) -> nn.GroupNorm:
    norm = group_norm(width)
    nn.init.zeros_(norm.weight)
    return norm


def stem(channels: int, width: int, *, stride: int) -> nn.Sequential:
    """The convolution that a residual network begins with: (N, channels, R, S) → (N, width, ⌈R/stride⌉, ⌈S/stride⌉)"""
    first = nn.Conv2d(channels, width, 2 * stride + 1, stride=stride, padding=stride, bias=False)
    return nn.Sequential(first, group_norm(width), nn.ReLU())


def group_norm(width: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(width, GROUPS), width)
