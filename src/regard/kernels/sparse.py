"""Matrices with few cells that are not zero: which cells these are stays fixed, their values are computed.

Everything is a product with a matrix in compressed rows (CSR), which torch computes fast on every device. No Python
loop and no compiled package is involved, and no tensor is larger than cells × width.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SMALL = 2**31 - 1  # the largest number of an int32, which halves the memory of the indices

with warnings.catch_warnings():  # torch says once for each process that its sparse matrices may still change
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0]), torch.empty(0, dtype=torch.int64), torch.empty(0), (0, 0))


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a matrix (R, C) that are not zero: E of them, in the order of rows, and of columns in a row.

    rows, columns (E,)   where each cell is
    starts (R + 1,)      the first cell of each row, and E
    """

    rows: Tensor
    columns: Tensor
    starts: Tensor
    size: tuple[int, int]

    @classmethod
    def of(cls, pairs: Tensor, size: tuple[int, int]) -> Cells:
        """From pairs (E, 2) of a row and a column, each once, in any order."""
        order = torch.argsort(pairs[:, 0] * size[1] + pairs[:, 1])
        rows, columns = pairs[order].unbind(1)
        return cls.sorted(rows, columns, size)

    @classmethod
    def sorted(cls, rows: Tensor, columns: Tensor, size: tuple[int, int]) -> Cells:
        """From cells that are in order."""
        kind = torch.int32 if max(*size, len(rows)) <= SMALL else torch.int64
        return cls(rows.to(kind), columns.to(kind), _starts(rows, size[0]).to(kind), size)

    def __len__(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device | str) -> Cells:
        """The same cells on that device."""
        if self.rows.device == torch.device(device):
            return self
        return Cells(self.rows.to(device), self.columns.to(device), self.starts.to(device), self.size)

    def heads(self, count: int) -> Heads:
        """These cells for each of `count` heads."""
        known = self._heads.get(count)
        if known is None:
            known = self._heads[count] = Heads.of(self, count)
        return known

    @cached_property
    def _heads(self) -> dict[int, Heads]:
        return {}

    @cached_property
    def by_columns(self) -> tuple[Tensor, Tensor]:
        """The order of the cells by column (E,), and the first cell of each column in it (C + 1,)."""
        order = torch.argsort(self.columns, stable=True)
        kind = self.columns.dtype
        return order.to(kind), _starts(self.columns[order], self.size[1]).to(kind)

    @cached_property
    def places(self) -> Tensor:
        """0, 1, … (E,)"""
        return torch.arange(len(self), dtype=self.rows.dtype, device=self.rows.device)

    @cached_property
    def transposed(self) -> Cells:
        """The cells of the transposed matrix; its values are those at `by_columns[0]`."""
        order, starts = self.by_columns
        return Cells(self.columns[order], self.rows[order], starts, (self.size[1], self.size[0]))


@dataclass(frozen=True, eq=False)
class Heads:
    """The cells of H matrices (R, C) as those of one matrix (R·H, C·H): row i of head h is its row i·H + h.

    So a tensor (R, H, D) is already a matrix (R·H, D), and nothing is copied.

    order    (E·H,) where the value of each of its cells stands in values (E, H)
    back     (E·H,) the opposite
    turned   (E·H,) as `order`, for the transposed cells
    """

    cells: Cells
    order: Tensor
    back: Tensor
    turned: Tensor

    @classmethod
    def of(cls, cells: Cells, count: int) -> Heads:
        if count == 1:
            return cls(cells, cells.places, cells.places, cells.by_columns[0])
        rows, columns = ((x.long().unsqueeze(1) * count + torch.arange(count, device=x.device)).flatten()
                         for x in (cells.rows, cells.columns))  # fmt: skip
        order = torch.argsort(rows, stable=True)
        spread = Cells.sorted(rows[order], columns[order], (count * cells.size[0], count * cells.size[1]))
        kind = spread.rows.dtype
        turned = order[spread.by_columns[0]]
        return cls(spread, order.to(kind), torch.argsort(order).to(kind), turned.to(kind))

    def ordered(self, values: Tensor) -> Tensor:
        """values (E, H) in the order of the cells: (E·H,)"""
        return values.squeeze(1) if values.shape[1] == 1 else values.flatten().index_select(0, self.order)

    def as_given(self, values: Tensor, count: int) -> Tensor:
        """The opposite of `ordered`: (E·H,) → (E, H)"""
        return values.unsqueeze(1) if count == 1 else values.index_select(0, self.back).view(-1, count)


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix (R, C): its cells, and their values (E,)."""

    cells: Cells
    values: Tensor

    def to(self, device: torch.device | str) -> Sparse:
        """The same matrix on that device."""
        cells = self.cells.to(device)
        return self if cells is self.cells else Sparse(cells, self.values.to(device))

    def __matmul__(self, dense: Tensor) -> Tensor:
        """The product with a dense matrix (C, D): (R, D)"""
        return mixed(self.cells, self.values.unsqueeze(1), dense.unsqueeze(1)).squeeze(1)


def mixed(cells: Cells, values: Tensor, dense: Tensor) -> Tensor:
    """The product of H matrices, all with these cells, with H dense ones: values (E, H), dense (C, H, D) → (R, H, D)"""
    found: Tensor = _Mixed.apply(values, dense, cells)
    return found


def at_rows(cells: Cells, x: Tensor) -> Tensor:
    """What x has for the row of each cell: x (R, M) → (E, M)"""
    found: Tensor = _AtRows.apply(x, cells)
    return found


def at_columns(cells: Cells, x: Tensor) -> Tensor:
    """What x has for the column of each cell: x (C, M) → (E, M)"""
    found: Tensor = _AtColumns.apply(x, cells)
    return found


def softmax(cells: Cells, logits: Tensor) -> Tensor:
    """w_ij = exp(s_ij) / Σ_j exp(s_ij) over the cells of a row, for each of H matrices: (E, H) → (E, H)"""
    found: Tensor = _Softmax.apply(logits, cells)
    return found


class _Mixed(torch.autograd.Function):
    """Y = V X,   dV_ij = dY_i · X_j,   dX = Vᵀ dY"""

    @staticmethod
    def forward(context: Any, values: Tensor, dense: Tensor, cells: Cells) -> Tensor:
        context.save_for_backward(values, dense)
        context.heads = heads = cells.heads(values.shape[1])
        return _product(heads.cells, heads.ordered(values), dense)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, dense = context.saved_tensors
        heads: Heads = context.heads
        to_values = to_dense = None
        if context.needs_input_grad[0]:
            to_values = heads.as_given(_sampled(heads.cells, above, dense), values.shape[1])
        if context.needs_input_grad[1]:
            to_dense = _product(heads.cells.transposed, values.flatten().index_select(0, heads.turned), above)
        return to_values, to_dense, None


class _AtRows(torch.autograd.Function):
    """dX_i = Σ over the cells of row i"""

    @staticmethod
    def forward(context: Any, x: Tensor, cells: Cells) -> Tensor:
        context.cells = cells
        return x.index_select(0, cells.rows)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor, None]:
        return _row_sums(context.cells, above), None


class _AtColumns(torch.autograd.Function):
    """dX_j = Σ over the cells of column j"""

    @staticmethod
    def forward(context: Any, x: Tensor, cells: Cells) -> Tensor:
        context.cells = cells
        return x.index_select(0, cells.columns)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor, None]:
        order, starts = context.cells.by_columns
        return _sums(starts, order, above), None


class _Softmax(torch.autograd.Function):
    """ds_ij = w_ij (dw_ij − Σ_j w_ij dw_ij)"""

    @staticmethod
    def forward(context: Any, logits: Tensor, cells: Cells) -> Tensor:
        highest = torch.segment_reduce(logits, "max", offsets=cells.starts.long(), unsafe=True)
        mass = (logits - highest.index_select(0, cells.rows)).exp_()
        weights = mass.div_(_row_sums(cells, mass).index_select(0, cells.rows))
        context.save_for_backward(weights)
        context.cells = cells
        return weights

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor, None]:
        (weights,) = context.saved_tensors
        cells: Cells = context.cells
        moved = weights * above
        return moved.addcmul_(weights, _row_sums(cells, moved).index_select(0, cells.rows), value=-1), None


def _product(cells: Cells, values: Tensor, dense: Tensor) -> Tensor:
    """The values of cells (R·H, C·H) times dense (C, H, D): (R, H, D)"""
    return _times(cells.starts, cells.columns, values, dense.flatten(0, 1)).unflatten(0, (-1, dense.shape[1]))


def _sampled(cells: Cells, left: Tensor, right: Tensor) -> Tensor:
    """left_i · right_j of each cell (i, j) of (R·H, C·H): left (R, H, D), right (C, H, D) → a number for each cell"""
    pattern = _matrix(cells.starts, cells.columns, left.new_zeros(len(cells)), cells.size[1])
    left, right = left.flatten(0, 1), right.flatten(0, 1)
    return torch.sparse.sampled_addmm(pattern, left, right.T, beta=0.0).values()


def _row_sums(cells: Cells, x: Tensor) -> Tensor:
    """Σ over the cells of each row: (E, M) → (R, M)"""
    return _sums(cells.starts, cells.places, x)


def _sums(starts: Tensor, order: Tensor, x: Tensor) -> Tensor:
    """The sum over each group of rows of x (E, M), which `starts` (G + 1,) divides in this order: (G, M)"""
    precise = x.to(torch.promote_types(x.dtype, torch.float32)).contiguous()
    return _times(starts, order, precise.new_ones(len(order)), precise).to(x.dtype)


def _times(starts: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """A matrix in compressed rows times dense (C, D): (R, D)"""
    matrix, device = _matrix(starts, columns, values, len(dense)), values.device.type
    if not torch.is_autocast_enabled(device):
        return matrix @ dense
    with torch.autocast(device, enabled=False):  # there is no sparse product in half precision
        return matrix @ dense


def _matrix(starts: Tensor, columns: Tensor, values: Tensor, width: int) -> Tensor:
    """A matrix in compressed rows, `width` wide. The indices were checked when the cells were made."""
    return torch.sparse_csr_tensor(starts, columns, values, (len(starts) - 1, width), check_invariants=False)


def _starts(rows: Tensor, count: int) -> Tensor:
    """The place of the first of each of `count` numbers in a sorted list, and its length."""
    ends = torch.bincount(rows, minlength=count).cumsum(0)
    return torch.cat([ends.new_zeros(1), ends])
