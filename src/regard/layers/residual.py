"""The residual block of convolutional networks, with anything in the place of its convolution over space.

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
        outputs = EXPANSION * width
        self.reduce = nn.Conv2d(channels, width, 1, bias=False)
        self.spatial = spatial
        self.expand = nn.Conv2d(width, outputs, 1, bias=False)
        self.norms = nn.ModuleList([group_norm(width), group_norm(width)])
        self.last_norm = group_norm(outputs)
        self.halve = halve
        self.shortcut = nn.Conv2d(channels, outputs, 1, bias=False) if halve or channels != outputs else nn.Identity()
        nn.init.zeros_(self.last_norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](self.reduce(x)).relu()
        y = self.spatial(y)
        y = self.norms[1](halved(y) if self.halve else y).relu()
        y = self.last_norm(self.expand(y))
        return (self.shortcut(halved(x) if self.halve else x) + y).relu()


def halved(x: Tensor) -> Tensor:
    """The mean of each 2 × 2 pixels; at an odd edge, of those that there are. (N, C, R, S) → (N, C, ⌈R/2⌉, ⌈S/2⌉)"""
    return F.avg_pool2d(x, 2, ceil_mode=True)


def bottlenecks(
    layers: Sequence[int], width: int, spatial: Callable[[int], nn.Module]
) -> Iterator[tuple[int, Bottleneck]]:
    """The blocks of a residual network after a stem of `width` channels, each with the number of its stage from 0.

    From stage to stage there are twice the channels, and half the rows and columns. `spatial(width)` makes what is in
    the middle of a block.
    """
    channels = width
    for stage, count in enumerate(layers):
        for number in range(count):
            halve = stage > 0 and number == 0
            yield stage, Bottleneck(channels, width=width << stage, spatial=spatial(width << stage), halve=halve)
            channels = EXPANSION * width << stage


def stem(channels: int, width: int, *, stride: int) -> nn.Sequential:
    """The convolution that a residual network begins with: (N, channels, R, S) → (N, width, ⌈R/stride⌉, ⌈S/stride⌉)"""
    first = nn.Conv2d(channels, width, 2 * stride + 1, stride=stride, padding=stride, bias=False)
    return nn.Sequential(first, group_norm(width), nn.ReLU())


def group_norm(width: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(width, GROUPS), width)
