"""What a glimpse of a picture sees: patches around a place, and which parts of the picture they cover.

A place is (row, column); the picture reaches from −1 to 1 along both.

B batch  C channels  R rows  S columns  p pixels along a patch
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def levels(pictures: Tensor, scales: int) -> list[Tensor]:
    """The pictures (B, C, R, S), then their means of each 2 × 2 pixels, of each 4 × 4, and so on."""
    found = [pictures]
    for _ in range(scales - 1):
        found.append(F.avg_pool2d(found[-1], 2, ceil_mode=True))
    return found


def patches(pyramid: Sequence[Tensor], place: Tensor, *, size: int) -> Tensor:
    """A patch of size × size pixels around a place, of each level of `levels`: patch n shows 2ⁿ·size pixels each way.

    levels (B, C, R/2ⁿ, S/2ⁿ), place (B, 2) → (B, levels, C, size, size).   Outside of the picture is 0; between
    pixels, a patch is interpolated.
    """
    shape = place.new_tensor(pyramid[0].shape[2:])
    centre = (place + 1) / 2 * shape  # in pixels
    steps = torch.arange(size, device=place.device) - (size - 1) / 2
    found = []
    for number, level in enumerate(pyramid):
        at = centre.unsqueeze(1) / 2**number + steps.unsqueeze(1)  # (B, p, 2) in pixels of this level
        at = 2 * at / at.new_tensor(level.shape[2:]) - 1
        rows, columns = at[:, :, None, 0].expand(-1, -1, size), at[:, None, :, 1].expand(-1, size, -1)
        found.append(F.grid_sample(level, torch.stack([columns, rows], -1).to(level.dtype), align_corners=False))
    return torch.stack(found, 1)


def covered(place: Tensor, *, pixels: tuple[int, int], cells: tuple[int, int], size: int, scales: int) -> Tensor:
    """The share of the numbers in a glimpse that comes from each cell of a grid over the picture.

    place (…, 2) → (…, rows of cells · columns of cells).   Shares sum to 1, or to less where a patch reaches beyond the
    picture.
    """
    centre = (place + 1) / 2 * place.new_tensor(pixels)
    total = place.new_zeros(*place.shape[:-1], *cells)
    for side in (size * 2**number for number in range(scales)):
        rows, columns = (_overlap(centre[..., axis], pixels[axis], cells[axis], side) for axis in (0, 1))
        total = total + rows.unsqueeze(-1) * columns.unsqueeze(-2) / scales
    return total.flatten(-2)


def _overlap(centre: Tensor, length: int, cells: int, side: int) -> Tensor:
    """The share of an interval of `side` pixels that lies in each of the equal cells of an axis: (…) → (…, cells)"""
    edges = torch.linspace(0, length, cells + 1, dtype=centre.dtype, device=centre.device)
    begin, end = centre.unsqueeze(-1) - side / 2, centre.unsqueeze(-1) + side / 2
    return (torch.minimum(edges[1:], end) - torch.maximum(edges[:-1], begin)).clamp(min=0) / side
