"""A small residual network that turns a picture into a grid of vectors, one for each place.

B batch  C channels  H, W height and width in pixels  s pixels of a place, down and across  F filters  M width
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.positions import Sinusoidal
from regard.kernels.linear import Linear


class PlaceNorm(nn.LayerNorm):
    """The layer norm of each place by itself: (B, F, h, w) → (B, F, h, w)

    A norm over all places would tell every place something about all others, so that a look at the empty ground could
    say what stands elsewhere.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Residual(nn.Module):
    """x + conv(relu(norm(conv(relu(norm(x)))))), with 3 × 3 filters: (B, F, h, w) → (B, F, h, w)         He 2016"""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(PlaceNorm(filters) for _ in range(2))
        self.filters = nn.ModuleList(nn.Conv2d(filters, filters, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for norm, convolve in zip(self.norms, self.filters, strict=True):
            y = convolve(F.relu(norm(y)))
        return x + y


class PictureGrid(nn.Module):
    """A vector for each place of a picture, which knows its surroundings and its row and column.

        a_i = W relu(norm(f(picture)_i)) + P_i

    pictures (B, C, H, W) → (B, H/s · W/s, M), row by row.   f halves the picture as often as `blocks` has numbers, so
    that s = 2, 4, 8 …: each time with filters of 4 × 4 pixels, by which a vector belongs to the middle of its place,
    and then with so many residual blocks. The number of filters doubles each time. P_i are sines of the row (first half
    of the features) and of the column.
    """

    def __init__(self, channels: int, *, width: int, filters: int, blocks: Sequence[int]) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        read = channels
        for scale, count in enumerate(blocks):
            parts.append(nn.Conv2d(read, filters << scale, 4, stride=2, padding=1))
            read = filters << scale
            parts += [Residual(read) for _ in range(count)]
        self.parts = nn.Sequential(*parts)
        self.norm = PlaceNorm(read)
        self.project = Linear(read, width)
        self.position = Sinusoidal()

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.parts(pictures.contiguous(memory_format=torch.channels_last))  # (B, F, h, w)
        x = self.project(F.relu(self.norm(x)).permute(0, 2, 3, 1))  # (B, h, w, M)
        _, rows, columns, width = x.shape
        down = self._waves(x, rows, width // 2).unsqueeze(1).expand(-1, columns, -1)
        across = self._waves(x, columns, width - width // 2).expand(rows, -1, -1)
        return (x + torch.cat([down, across], dim=-1)).flatten(1, 2)

    def _waves(self, x: Tensor, size: int, width: int) -> Tensor:
        """The sines of the first positions: (size, width)"""
        at = torch.arange(size, device=x.device)
        return self.position.on_input(x.new_zeros(1, size, width), at)[0]
