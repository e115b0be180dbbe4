"""Attention inside the windows of a grid, and how weights of parts of a grid become weights of the whole grid.

B batch  R rows  C columns  M width  H heads  D width of a head  w width of a window  W windows
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.recorder import deliver, watching
from regard.errors import RegardError
from regard.kernels.linear import Linear, map_together

DEVIATION = 0.02  # of the first relative position biases


class WindowAttention(nn.Module):
    """Every place looks at the places of its window of w × w places.

        y_i = Σ_j a_ij v_j                                                                      Liu 2021, equation 4
        a_i = softmax_j( q_iᵀ k_j / √D + b_{row(i) − row(j), column(i) − column(j)} )

    x (B, R, C, M) → (B, R, C, M).   Time and memory grow with R·C·w². `table` holds b, of each head its own. With
    `shifted`, windows begin half a window further down and to the right, so that neighbours in two windows of one layer
    share a window of the next. What is left at the edges is put together into whole windows, where places look only
    at those that they are beside in the grid. A grid whose sides are no multiples of w is filled up with zeros at the
    bottom and on the right; they are looked at as in Hugging Face's library. A grid of one window is not shifted.
    """

    def __init__(self, width: int, *, heads: int, window: int, shifted: bool = False, bias: bool = True) -> None:
        super().__init__()
        if min(width, heads, window) < 1 or width % heads:
            raise RegardError(f"width={width}, heads={heads}, window={window}: the heads must divide the width")
        self.heads, self.window, self.shifted = heads, window, shifted
        self.query = Linear(width, width, bias=bias)
        self.key = Linear(width, width, bias=bias)
        self.value = Linear(width, width, bias=bias)
        self.output = Linear(width, width)
        self.table = nn.Parameter(torch.empty((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=DEVIATION)

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = x.shape[1:3]
        size = min(self.window, rows, columns)
        shift = self.window // 2 if self.shifted and min(rows, columns) > self.window else 0
        x = F.pad(x, (0, 0, 0, -columns % size, 0, -rows % size))
        filled = x.shape[1:3]
        x = _cut(x.roll((-shift, -shift), (1, 2)), size)  # (B, W, w², M)
        query, key, value = (self._split(y) for y in map_together(x, self.query, self.key, self.value))
        bias = self._bias(size)  # (H, w², w²)
        if shift:
            region = _regions(*filled, size=size, shift=shift, device=x.device)  # (W, w²)
            apart = region.unsqueeze(1) != region.unsqueeze(2)
            bias = torch.where(apart.unsqueeze(1), -torch.inf, bias)  # (W, H, w², w²)
        weights = (query * query.shape[-1] ** -0.5 @ key.transpose(-1, -2) + bias).softmax(-1)  # (B, W, H, w², w²)
        if watching():
            places = _cut(_numbered(rows, columns, *filled).roll((-shift, -shift), (0, 1))[None, :, :, None], size)
            deliver(on_grid(weights, places[0, :, :, 0], places[0, :, :, 0], places=rows * columns))
        y = self.output((weights @ value).transpose(2, 3).flatten(3))
        return _joined(y, *filled).roll((shift, shift), (1, 2))[:, :rows, :columns]

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(2, 3)  # (B, W, w², M) → (B, W, H, w², D)

    def _bias(self, size: int) -> Tensor:
        """b for every two places of a window of `size` × `size`: (H, size², size²)"""
        at = torch.arange(size, device=self.table.device)
        apart = at.unsqueeze(1) - at + self.window - 1  # along one axis
        index = apart[:, None, :, None] * (2 * self.window - 1) + apart[None, :, None, :]  # (size, size, size, size)
        return self.table[index.flatten(0, 1).flatten(1)].permute(2, 0, 1)


def _numbered(rows: int, columns: int, all_rows: int, all_columns: int) -> Tensor:
    """The number of each place of a grid that was filled up at the bottom and on the right; −1 where it was filled."""
    inside = torch.arange(rows * columns).view(rows, columns)
    return F.pad(inside, (0, all_columns - columns, 0, all_rows - rows), value=-1)


def on_grid(weights: Tensor, i: Tensor, j: Tensor, *, places: int) -> Tensor:
    """The weights of the parts of a grid as weights between all of its places; zero where no part has both.

    weights (B, W, H, q, k) of W parts, whose queries are the places i (W, q) and whose keys are the places j (W, k);
    −1 is outside of the grid → (B, H, places, places)
    """
    part, query, key = ((i >= 0).unsqueeze(2) & (j >= 0).unsqueeze(1)).nonzero(as_tuple=True)
    result = weights.new_zeros(weights.shape[0], weights.shape[2], places, places)
    result[:, :, i[part, query], j[part, key]] = weights.detach()[:, part, :, query, key].permute(1, 2, 0)
    return result


def _regions(rows: int, columns: int, *, size: int, shift: int, device: torch.device) -> Tensor:
    """Which places of a shifted grid are beside each other in the grid: those of one window with the same number."""

    def along(length: int) -> Tensor:
        at = torch.arange(length, device=device)
        return (at >= length - size).long() + (at >= length - shift).long()

    grid = along(rows).unsqueeze(1) * 3 + along(columns)
    return _cut(grid[None, :, :, None], size)[0, :, :, 0]


def _cut(x: Tensor, size: int) -> Tensor:
    """(B, R, C, M) → its windows (B, W, size², M)"""
    x = x.unflatten(2, (-1, size)).unflatten(1, (-1, size))  # (B, R/w, w, C/w, w, M)
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def _joined(x: Tensor, rows: int, columns: int) -> Tensor:
    """The opposite of `_cut`: (B, W, size², M) → (B, rows, columns, M)"""
    size = int(x.shape[2] ** 0.5)
    x = x.unflatten(2, (size, size)).unflatten(1, (rows // size, columns // size))
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)
