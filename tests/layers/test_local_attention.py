"""Local attention, compared with its equation in NumPy pixel by pixel, and with global attention."""

from functools import partial

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.attention import attend
from regard.attention.patterns import Window
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.layers.local_attention import LocalAttention


def local(layer: LocalAttention, picture: Tensor) -> numpy.ndarray:
    """Ramachandran 2019, equation 3, one pixel and one head at a time: (C, R, S) → (width, R, S)"""
    x = picture.double().numpy()
    q, k, v = (
        numpy.einsum("oc,crs->ors", linear.weight.detach().double().numpy(), x)
        for linear in (layer.query, layer.key, layer.value)
    )
    by_row, by_column = (table.detach().double().numpy() for table in (layer.rows, layer.columns))
    width = len(q) // layer.heads
    result = numpy.zeros_like(q)
    for row, column in numpy.ndindex(*x.shape[1:]):
        for head in range(layer.heads):
            part = slice(head * width, (head + 1) * width)
            scores, values = [], []
            for down in range(layer.extent):
                for right in range(layer.extent):
                    at = row + down - layer.extent // 2, column + right - layer.extent // 2
                    if 0 <= at[0] < x.shape[1] and 0 <= at[1] < x.shape[2]:
                        apart = numpy.concatenate([by_row[head, down], by_column[head, right]])
                        scores.append(q[part, row, column] @ (k[part, *at] + apart))
                        values.append(v[part, *at])
            weights = numpy.exp(numpy.array(scores))
            result[part, row, column] = weights / weights.sum() @ numpy.array(values)
    return result


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 9), columns=st.integers(1, 9), extent=st.integers(1, 5), heads=st.integers(1, 2))
def test_local_attention_equals_numpy(rows: int, columns: int, extent: int, heads: int) -> None:
    torch.manual_seed(rows * 100 + columns * 10 + extent)
    layer, x = LocalAttention(3, width=6, heads=heads, extent=extent), torch.randn(2, 3, rows, columns)
    found = layer(x).detach().double().numpy()
    for picture, result in zip(x, found, strict=True):
        numpy.testing.assert_allclose(result, local(layer, picture), atol=1e-5)


def everywhere(layer: LocalAttention, x: Tensor, *, windowed: bool) -> Tensor:
    """The same by `attend` over all pixels, with the scores of rows and columns as a bias."""
    rows, columns = x.shape[2:]
    pixels = x.flatten(2).transpose(1, 2)
    q, k, v = (
        linear(pixels).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        for linear in (layer.query, layer.key, layer.value)
    )
    at = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), -1).flatten(0, 1)
    apart = (at - at.unsqueeze(1) + layer.extent // 2).clamp(0, layer.extent - 1)  # (P, P, 2)
    vectors = torch.cat([layer.rows[:, apart[..., 0]], layer.columns[:, apart[..., 1]]], -1)  # (H, P, P, D)
    bias = torch.einsum("bhid,hijd->bhij", q, vectors)
    pattern = Window(layer.extent, shape=(rows, columns)) if windowed else None
    return (
        attend(q, k, v, score="dot", pattern=pattern, bias=bias).transpose(1, 2).flatten(2).mT.unflatten(2, x.shape[2:])
    )


def test_full_extent_equals_global_attention_with_gradients() -> None:
    torch.manual_seed(0)
    layer, x = LocalAttention(3, width=10, heads=2, extent=13), torch.randn(2, 3, 5, 7)
    found, expected = layer(x), everywhere(layer, x, windowed=False)
    assert_close(found, expected, atol=1e-5, rtol=1e-4)
    weights = list(layer.parameters())
    ours = torch.autograd.grad(found.square().sum(), weights)
    theirs = torch.autograd.grad(expected.square().sum(), weights)
    assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_neighbourhood_equals_a_pattern_with_gradients() -> None:
    torch.manual_seed(0)
    layer, x = LocalAttention(3, width=10, heads=2, extent=3), torch.randn(2, 3, 11, 7)
    found, expected = layer(x), everywhere(layer, x, windowed=True)
    assert_close(found, expected, atol=1e-5, rtol=1e-4)
    weights = list(layer.parameters())
    ours = torch.autograd.grad(found.square().sum(), weights)
    theirs = torch.autograd.grad(expected.square().sum(), weights)
    assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_the_weights_shown_are_the_weights_used() -> None:
    torch.manual_seed(0)
    layer, x = LocalAttention(3, width=10, heads=2, extent=3), torch.randn(2, 3, 5, 7)
    with recording(layer) as seen:
        found = layer(x)
    weights = seen[""]  # (N, H, P, P)
    assert weights.shape == (2, 2, 35, 35)
    assert_close(weights.sum(-1), torch.ones(2, 2, 35))
    assert ((weights > 0) == Window(3, shape=(5, 7)).dense(35, 35)).all()
    values = layer.value(x.flatten(2).mT).unflatten(-1, (2, -1)).transpose(1, 2)
    assert_close((weights @ values).transpose(1, 2).flatten(2).mT.view_as(found), found)


def _kept(sizes: list[int], x: Tensor) -> Tensor:
    sizes.append(x.numel())
    return x


def test_memory_does_not_grow_with_the_square_of_the_picture() -> None:
    """The largest tensor of a pass over four times as many pixels is about four times as large."""
    layer = LocalAttention(2, width=4, heads=1, extent=3)
    largest = []
    for side in (24, 48):
        sizes: list[int] = []
        keep = partial(_kept, sizes)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            layer(torch.randn(1, 2, side, side))
        largest.append(max(sizes))
    assert largest[0] == 24 * 24 * 25  # blocks of 3 × 3 that look at 5 × 5
    assert largest[1] == 4 * largest[0]


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(RegardError, match="heads must divide"):
        LocalAttention(3, width=10, heads=3, extent=3)
    with pytest.raises(RegardError, match=r"expected \(N, 3, R, S\)"):
        LocalAttention(3, width=4, heads=2, extent=3)(torch.zeros(1, 4, 5, 5))
