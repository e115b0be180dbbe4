"""Sparse products, gathers and softmax against dense torch, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.kernels.sparse import Cells, Sparse, at_columns, at_rows, mixed, softmax


def cells_of(seed: int, rows: int, columns: int) -> tuple[Cells, torch.Tensor]:
    """Random cells, given in any order, and where they are; some rows and columns have none."""
    there = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) < 0.3
    pairs = there.nonzero()
    return Cells.of(pairs[torch.randperm(len(pairs))], (rows, columns)), there


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 9), columns=st.integers(1, 9), heads=st.integers(1, 3))
def test_products_are_those_of_dense_matrices(seed: int, rows: int, columns: int, heads: int) -> None:
    torch.manual_seed(seed)
    cells, there = cells_of(seed, rows, columns)
    values = torch.randn(len(cells), heads, dtype=torch.float64, requires_grad=True)
    x = torch.randn(columns, heads, 5, dtype=torch.float64, requires_grad=True)
    matrix = torch.zeros(rows, columns, heads, dtype=torch.float64).masked_scatter(there.unsqueeze(-1), values)
    expected = torch.einsum("rch,chd->rhd", matrix, x)
    found = mixed(cells, values, x)
    torch.testing.assert_close(found, expected)
    above = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad((y * above).sum(), (values, x)) for y in (found, expected))
    torch.testing.assert_close(ours, theirs)


def test_gathers_and_softmax_have_the_gradients_of_their_equations() -> None:
    there = torch.rand(7, 5, generator=torch.Generator().manual_seed(3)) < 0.4
    there[2] = there[:, 1] = False  # a row and a column without cells
    cells = Cells.of(there.nonzero(), (7, 5))
    y, x, logits = (torch.randn(size, 2, dtype=torch.float64, requires_grad=True) for size in (7, 5, len(cells)))
    rows, columns = there.nonzero().unbind(1)
    torch.testing.assert_close(at_rows(cells, y), y[rows])
    torch.testing.assert_close(at_columns(cells, x), x[columns])
    dense = torch.full((7, 5, 2), -torch.inf, dtype=torch.float64).masked_scatter(there.unsqueeze(-1), logits)
    torch.testing.assert_close(softmax(cells, logits), dense.softmax(1)[there])
    for function, given_ in ((at_rows, y), (at_columns, x), (softmax, logits)):
        assert torch.autograd.gradcheck(lambda z, f=function: f(cells, z), given_)


def test_softmax_of_large_scores_is_finite_and_sums_to_one() -> None:
    cells = Cells.of(torch.tensor([[0, 0], [0, 1], [2, 1]]), (3, 2))
    weights = softmax(cells, torch.tensor([[1e4], [1e4 - 1], [-1e4]]))
    assert weights[:2].sum().item() == pytest.approx(1)
    assert weights[2].item() == 1


def test_a_sparse_matrix_times_a_dense_one() -> None:
    cells, there = cells_of(5, 6, 4)
    values = torch.randn(len(cells))
    dense = torch.zeros(6, 4).masked_scatter(there, values)
    weight = torch.randn(4, 3)
    torch.testing.assert_close(Sparse(cells, values) @ weight, dense @ weight)
