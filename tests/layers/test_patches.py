"""Patches of pictures against equations in NumPy."""

from collections.abc import Callable

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from regard.attention.positions import Learned
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.layers.dropout import DropRows
from regard.layers.patches import AttentionPooling, Convolved, Cut, PatchEmbedding
from regard.layers.wiring import PostNorm, PreNorm, StochasticDepth

Array = numpy.ndarray


def as_numpy(x: torch.Tensor) -> Array:
    return x.detach().double().numpy()


@given(rows=st.integers(3, 9), columns=st.integers(3, 9), size=st.integers(1, 3), channels=st.integers(1, 3))
def test_cut_patches_are_a_linear_map_of_their_pixels(rows: int, columns: int, size: int, channels: int) -> None:
    torch.manual_seed(0)
    cut, pictures = Cut(channels, size=size, width=5), torch.randn(2, channels, rows, columns)
    weight, bias, pixels = as_numpy(cut.linear.weight), as_numpy(cut.linear.bias), as_numpy(pictures)
    down, across = cut.grid(rows, columns)
    wanted = [
        weight @ pixels[0, :, r * size : (r + 1) * size, c * size : (c + 1) * size].reshape(-1) + bias
        for r in range(down)
        for c in range(across)
    ]
    found = cut(pictures)
    assert found.shape == (2, down * across, 5)
    assert_close(as_numpy(found[0]), numpy.stack(wanted), atol=1e-5, rtol=1e-5)


def test_cut_patches_are_those_of_a_convolution_with_their_stride() -> None:
    torch.manual_seed(0)
    cut, theirs = Cut(3, size=4, width=6), nn.Conv2d(3, 6, 4, stride=4)
    with torch.no_grad():
        cut.linear.weight.copy_(theirs.weight.flatten(1))
        cut.linear.bias.copy_(theirs.bias)
    pictures = torch.randn(2, 3, 11, 9)
    assert_close(cut(pictures), theirs(pictures).flatten(2).transpose(1, 2), atol=1e-5, rtol=1e-5)


def convolved(pixels: Array, weight: Array) -> Array:
    """x ← maxpool(relu(W ∗ x)): (C, H, W) with weight (O, C, k, k) → (O, ⌈H/2⌉, ⌈W/2⌉)"""
    side = weight.shape[2] // 2
    padded = numpy.pad(pixels, ((0, 0), (side, side), (side, side)))
    height, width = pixels.shape[1:]
    mapped = numpy.zeros((len(weight), height, width))
    for r in range(height):
        for c in range(width):
            window = padded[:, r : r + weight.shape[2], c : c + weight.shape[3]]
            mapped[:, r, c] = numpy.maximum(numpy.tensordot(weight, window, 3), 0)
    pooled = numpy.zeros((len(weight), -(-height // 2), -(-width // 2)))
    for r in range(pooled.shape[1]):
        for c in range(pooled.shape[2]):
            rows, columns = slice(max(2 * r - 1, 0), 2 * r + 2), slice(max(2 * c - 1, 0), 2 * c + 2)
            pooled[:, r, c] = mapped[:, rows, columns].max((1, 2))
    return pooled


@pytest.mark.parametrize(("channels", "rows", "columns"), [(1, 8, 8), (3, 7, 10), (2, 5, 6)])
@pytest.mark.parametrize("kernel", [3, 5])
def test_convolved_patches_are_those_of_the_equation(channels: int, rows: int, columns: int, kernel: int) -> None:
    torch.manual_seed(0)
    layer = Convolved(channels, convolutions=2, kernel=kernel, first=4, width=6)
    pictures = torch.randn(2, channels, rows, columns)
    found = layer(pictures)
    down, across = layer.grid(rows, columns)
    assert found.shape == (2, down * across, 6)
    for row in range(2):
        wanted = as_numpy(pictures[row])
        for each in layer.layers:
            wanted = convolved(wanted, as_numpy(each.weight))  # type: ignore[arg-type]
        assert_close(as_numpy(found[row]), wanted.reshape(6, -1).T, atol=1e-5, rtol=1e-5)


def test_pictures_of_any_layout_in_memory_give_the_same_patches() -> None:
    torch.manual_seed(0)
    for channels in (1, 3):
        layer, pictures = (
            Convolved(channels, convolutions=2, kernel=3, first=4, width=6),
            torch.randn(3, 9, 8, channels),
        )
        last = pictures.permute(0, 3, 1, 2)
        assert_close(layer(last), layer(last.contiguous()), atol=1e-6, rtol=1e-5)


def test_a_kernel_without_a_middle_is_refused() -> None:
    with pytest.raises(RegardError, match="kernel=4"):
        Convolved(3, convolutions=1, kernel=4, first=4, width=6)


def test_the_embedding_is_the_class_token_then_the_patches_with_positions() -> None:
    torch.manual_seed(0)
    cut, position = Cut(1, size=2, width=5), Learned(5, width=5)
    layer, pictures = PatchEmbedding(cut, width=5, token=True, position=position, dropout=0.0), torch.randn(2, 1, 4, 4)
    found = layer(pictures)
    assert_close(found[:, 1:], cut(pictures) + position.table[1:])
    assert layer.token is not None
    assert_close(found[1, 0], layer.token[0] + position.table[0])


def test_attention_pooling_is_a_weighted_mean_and_its_weights_are_recorded() -> None:
    torch.manual_seed(0)
    layer, x = AttentionPooling(5), torch.randn(2, 7, 5)
    scores = as_numpy(x) @ as_numpy(layer.score.weight)[0] + as_numpy(layer.score.bias)
    weights = numpy.exp(scores) / numpy.exp(scores).sum(1, keepdims=True)
    with recording(layer) as seen:
        found = layer(x)
    assert_close(as_numpy(found), numpy.einsum("bn,bnm->bm", weights, as_numpy(x)), atol=1e-6, rtol=1e-5)
    assert_close(as_numpy(seen[""]), weights[:, None, None], atol=1e-6, rtol=1e-5)


def test_rows_are_dropped_whole_and_the_mean_stays() -> None:
    torch.manual_seed(0)
    layer, x = DropRows(0.25), torch.ones(4000, 3, 2)
    found = layer(x)
    assert found.flatten(1).mean(1).unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert torch.equal(found.flatten(1).amin(1), found.flatten(1).amax(1))
    assert float(found.mean()) == pytest.approx(1.0, abs=0.05)
    assert layer.eval()(x) is x
    with pytest.raises(RegardError):
        DropRows(1.0)


@pytest.mark.parametrize("inner", [PreNorm(), PostNorm()])
def test_stochastic_depth_leaves_the_sublayer_out_of_some_rows(inner: PreNorm | PostNorm) -> None:
    torch.manual_seed(0)
    wiring, x = StochasticDepth(inner, 0.5), torch.randn(60, 3, 8)
    residual, plain = wiring.around(8), inner.around(8)
    double: Callable[[torch.Tensor], torch.Tensor] = lambda y: 2 * y  # noqa: E731
    found = residual(x, double)
    without, twice = (plain(x, lambda y, s=share: s * y) for share in (0.0, 4.0))
    dropped = (found - without).abs().flatten(1).amax(1) < 1e-5
    assert 10 < int(dropped.sum()) < 50
    assert_close(found[~dropped], twice[~dropped])
    assert_close(residual.eval()(x, double), plain(x, double))
    assert type(wiring.final(8)) is type(inner.final(8))
