"""Attention of every pixel over its neighbourhood, in the place of a convolution.

N pictures  C channels  R rows  S columns  H heads  D width of a head  k width of the neighbourhood
"""

import torch
from torch import Tensor, nn

from regard.attention.recorder import deliver, watching
from regard.errors import RegardError
from regard.kernels.linear import Linear, map_together
from regard.layers.windows import on_grid


class LocalAttention(nn.Module):
    """Every pixel looks at the k × k pixels around it; how far a pixel is has a vector by row and one by column.

        y_i = Σ_{j ∈ N(i)} w_ij v_j                                                 Ramachandran 2019, equations 2 and 3
        w_i = softmax_{j ∈ N(i)}( q_iᵀ (k_j + [r_{row(j) − row(i)} ; c_{column(j) − column(i)}]) )

    x (N, C, R, S) → (N, `width`, R, S).   r has the first half of the width of a
    head and c the rest. Of a pixel at the edge, N(i) holds the pixels of the picture only.

    The picture is cut into blocks of at most k × k pixels. A block of b × b looks at the b + k − 1 rows and columns
    around it in one product, so that memory grows with R·S·k², and with no more however large the picture is.
    """

    def __init__(self, channels: int, *, width: int, heads: int, extent: int) -> None:
        super().__init__()
        if min(channels, width, heads, extent) < 1 or width % heads or width // heads < 2:
            raise RegardError(
                f"channels={channels}, width={width}, heads={heads}, extent={extent}: each must be at least 1, and the "
                "heads must divide the width into parts of 2 or more"
            )
        self.heads, self.extent = heads, extent
        self.query = Linear(channels, width, bias=False)
        self.key = Linear(channels, width, bias=False)
        self.value = Linear(channels, width, bias=False)
        half = width // heads // 2
        self.rows = nn.Parameter(torch.randn(heads, extent, half) * (width // heads) ** -0.5)  # r
        self.columns = nn.Parameter(torch.randn(heads, extent, width // heads - half) * (width // heads) ** -0.5)  # c

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != self.query.in_features:
            raise RegardError(f"x has the shape {tuple(x.shape)}; expected (N, {self.query.in_features}, R, S)")
        shape = x.shape[2], x.shape[3]
        sizes = _size(shape[0], self.extent), _size(shape[1], self.extent)  # of a block
        mapped = map_together(x.permute(0, 2, 3, 1), self.query, self.key, self.value)  # (N, R, S, H·D)
        query = self._split(_blocks(mapped[0], sizes, halo=0))  # (N, W, H, b², D)
        key, value = (self._split(_blocks(y, sizes, halo=self.extent - 1)) for y in mapped[1:])  # (…, (b+k−1)², D)
        by_row, by_column = self._apart(query, shape, sizes)  # (N, W, H, b, b, b+k−1) each
        scores = (query @ key.transpose(-1, -2)).view(*by_row.shape, by_column.shape[-1])
        weights = scores.add_(by_row.unsqueeze(-1)).add_(by_column.unsqueeze(-2)).flatten(5).flatten(3, 4).softmax(-1)
        if watching():
            i, j = (_places(shape, sizes, halo=halo) for halo in (0, self.extent - 1))
            deliver(on_grid(weights, i, j, places=shape[0] * shape[1]))
        y = (weights @ value).transpose(2, 3).flatten(3)  # (N, W, b², H·D)
        return _whole(y, shape, sizes).permute(0, 3, 1, 2)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(2, 3)  # (N, W, P, H·D) → (N, W, H, P, D)

    def _apart(self, query: Tensor, shape: tuple[int, int], sizes: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """q_iᵀ r for each pixel of a block and each row around it, and q_iᵀ c for each column around it.

        query (N, W, H, b², D) → (N, W, H, b, b, b+k−1) each.   Rows and columns that a pixel may not look at have a
        number so low that their weights are 0.
        """
        rows, columns = query.unflatten(3, sizes).split([self.rows.shape[2], self.columns.shape[2]], -1)
        by_row = torch.einsum("nwhist,hijt->nwhisj", rows, self._table(self.rows, sizes[0]))
        by_column = torch.einsum("nwhist,hsjt->nwhisj", columns, self._table(self.columns, sizes[1]))
        lowest = torch.finfo(query.dtype).min / 4  # two of them can be added
        across = -(-shape[1] // sizes[1])  # blocks beside each other
        far = ~_near(shape[0], sizes[0], self.extent).repeat_interleave(across, 0)  # (W, b, b+k−1)
        by_row = by_row.masked_fill(far[:, None, :, None].to(query.device), lowest)
        far = ~_near(shape[1], sizes[1], self.extent).repeat(len(far) // across, 1, 1)
        return by_row, by_column.masked_fill(far[:, None, None].to(query.device), lowest)

    def _table(self, vectors: Tensor, size: int) -> Tensor:
        """The vector for pixel i of a block and pixel j around it along one axis: (H, k, D/2) → (H, b, b+k−1, D/2)"""
        return vectors[:, _offsets(size, self.extent).clamp(0, self.extent - 1).to(vectors.device)]


def _size(length: int, extent: int) -> int:
    """The length of a block: equal parts of at most `extent`."""
    return -(-length // -(-length // extent))


def _offsets(size: int, extent: int) -> Tensor:
    """How far pixel j around a block is from the first pixel that pixel i looks at: (size, size + extent − 1)"""
    return torch.arange(size + extent - 1) - torch.arange(size).unsqueeze(1)


def _near(length: int, size: int, extent: int) -> Tensor:
    """Whether pixel i of each block looks at pixel j around it, along an axis of `length`: (blocks, b, b+k−1)"""
    offsets = _offsets(size, extent)
    at = _around(length, size, extent - 1)
    inside = (at >= 0) & (at < length)
    return (offsets >= 0) & (offsets < extent) & inside.unsqueeze(1)


def _around(length: int, size: int, halo: int) -> Tensor:
    """The pixels of each block along an axis, with those around it, also beyond the ends: (blocks, b + halo)"""
    return torch.arange(0, length, size).unsqueeze(1) + torch.arange(size + halo) - -(-halo // 2)


def _blocks(x: Tensor, sizes: tuple[int, int], *, halo: int) -> Tensor:
    """The blocks of a picture, each with `halo` more rows and columns around it; beyond an edge, the edge is repeated.

    (N, R, S, M) → (N, W, (b + halo)², M)
    """
    for axis, size in ((1, sizes[0]), (2, sizes[1])):
        at = _around(x.shape[axis], size, halo).clamp(0, x.shape[axis] - 1)
        x = x.index_select(axis, at.flatten().to(x.device))
    x = x.unflatten(2, (-1, sizes[1] + halo)).unflatten(
        1, (-1, sizes[0] + halo)
    )  # (N, R/b, b + halo, S/b, b + halo, M)
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def _places(shape: tuple[int, int], sizes: tuple[int, int], *, halo: int) -> Tensor:
    """The number of each pixel of `_blocks` in the picture, row by row; −1 beyond an edge: (W, (b + halo)²)"""
    rows, columns = (_around(length, size, halo) for length, size in zip(shape, sizes, strict=True))
    inside = ((rows >= 0) & (rows < shape[0]))[:, None, :, None] & ((columns >= 0) & (columns < shape[1]))[
        None, :, None
    ]
    numbers = rows[:, None, :, None] * shape[1] + columns[None, :, None]  # (R/b, S/b, b + halo, b + halo)
    return numbers.masked_fill(~inside, -1).flatten(2).flatten(0, 1)


def _whole(x: Tensor, shape: tuple[int, int], sizes: tuple[int, int]) -> Tensor:
    """The picture that the blocks are of: (N, W, b², M) → (N, R, S, M)"""
    x = x.unflatten(2, sizes).unflatten(1, (-1, -(-shape[1] // sizes[1])))  # (N, R/b, S/b, b, b, M)
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)[:, : shape[0], : shape[1]]
