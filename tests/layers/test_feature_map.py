"""Attention between the places of a feature map, compared with its equations in NumPy."""

import numpy
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.layers.feature_map import AttentionLayer2d, NonLocal


def array(x: Tensor) -> numpy.ndarray:
    return x.detach().double().numpy()


def softmax(scores: numpy.ndarray) -> numpy.ndarray:
    powers = numpy.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_attention_layer_equals_numpy() -> None:
    torch.manual_seed(0)
    layer, x = AttentionLayer2d(3, key_width=5, width=7), torch.randn(2, 3, 4, 6)
    found = layer(x)
    assert found.shape == (2, 7, 4, 6)
    q, k, v = (array(linear.weight) for linear in (layer.query, layer.key, layer.value))
    for picture, result in zip(array(x), array(found), strict=True):
        pixels = picture.reshape(3, -1).T  # (P, C)
        weights = softmax((pixels @ q.T) @ (pixels @ k.T).T / numpy.sqrt(5))
        numpy.testing.assert_allclose(result.reshape(7, -1).T, weights @ pixels @ v.T, atol=1e-5)


def test_attention_layer_moves_with_the_pixels() -> None:
    """Pixels in another order give the same results in that order: no place has a meaning of its own."""
    torch.manual_seed(0)
    layer, x = AttentionLayer2d(3, key_width=5, width=7), torch.randn(1, 3, 4, 6)
    order = torch.randperm(24)
    moved = layer(x.flatten(2)[:, :, order].view_as(x))
    assert_close(moved.flatten(2), layer(x).flatten(2)[:, :, order])


def moved_away(block: NonLocal) -> NonLocal:
    """The block with an output that is not zero any more."""
    torch.nn.init.normal_(block.output.weight)
    torch.nn.init.normal_(block.output.bias)
    return block


def non_local(block: NonLocal, picture: numpy.ndarray) -> numpy.ndarray:
    """Wang 2018, equations 1 and 6, place by place: (C, T, H, W) → (C, T, H, W)"""
    channels = len(picture)
    places = picture.reshape(channels, -1).T
    looked_at = places
    if block.pool:
        frames, rows, columns = picture.shape[1:]
        cells = [
            picture[:, t, r : r + 2, c : c + 2].max((1, 2))
            for t in range(frames)
            for r in range(0, rows, 2)
            for c in range(0, columns, 2)
        ]
        looked_at = numpy.stack(cells)

    def linear(name: str, x: numpy.ndarray) -> numpy.ndarray:
        module = getattr(block, name)
        return x if isinstance(module, torch.nn.Identity) else x @ array(module.weight).T + array(module.bias)

    scores = linear("query", places) @ linear("key", looked_at).T
    if block.score == "dot_product":
        weights = scores / len(looked_at)
    else:
        weights = numpy.exp(scores)
        weights = weights / weights.sum(1, keepdims=True)
    result = places + linear("output", weights @ linear("value", looked_at))
    return result.T.reshape(picture.shape)


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("score", ["embedded_gaussian", "gaussian", "dot_product"])
def test_non_local_equals_numpy_on_pictures_and_videos(score: str, pool: bool) -> None:
    torch.manual_seed(0)
    block = moved_away(NonLocal(4, hidden=3, score=score, pool=pool))
    picture, video = torch.randn(2, 4, 5, 6), torch.randn(2, 4, 3, 5, 6)
    for given, found in zip(array(picture), array(block(picture)), strict=True):
        numpy.testing.assert_allclose(found, non_local(block, given[:, None])[:, 0], atol=1e-4)
    for given, found in zip(array(video), array(block(video)), strict=True):
        numpy.testing.assert_allclose(found, non_local(block, given), atol=1e-4)


@pytest.mark.parametrize("score", ["embedded_gaussian", "gaussian", "dot_product"])
def test_a_new_block_is_the_identity_and_learns(score: str) -> None:
    torch.manual_seed(0)
    block, x = NonLocal(4, score=score), torch.randn(2, 4, 3, 5)
    assert torch.equal(block(x), x)
    block(x).square().sum().backward()
    assert block.output.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("score", ["embedded_gaussian", "gaussian", "dot_product"])
def test_the_weights_shown_are_the_weights_used(score: str, pool: bool) -> None:
    torch.manual_seed(0)
    block, x = moved_away(NonLocal(4, hidden=3, score=score, pool=pool)), torch.randn(2, 4, 5, 6)
    with recording(block) as seen:
        watched = block(x)
    assert_close(watched, block(x), atol=1e-5, rtol=1e-5)
    weights = seen[""]
    assert weights.shape == (2, 1, 30, 9 if pool else 30)
    keys = torch.nn.functional.max_pool2d(x, 2, ceil_mode=True) if pool else x
    y = weights[:, 0] @ block.value(keys.flatten(2).transpose(1, 2))
    assert_close(watched, x + block.output(y).transpose(1, 2).view_as(x), atol=1e-5, rtol=1e-5)
    if score != "dot_product":
        assert_close(weights.sum(-1), torch.ones(2, 1, 30))


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(RegardError, match="key_width=0"):
        AttentionLayer2d(3, key_width=0, width=2)
    with pytest.raises(RegardError, match="did you mean"):
        NonLocal(3, score="gausian")
    with pytest.raises(RegardError, match=r"expected \(N, 3, H, W\) or \(N, 3, T, H, W\)"):
        NonLocal(3)(torch.zeros(2, 4, 5, 5))
    with pytest.raises(RegardError, match=r"expected \(N, 3, H, W\)$"):
        AttentionLayer2d(3, key_width=2, width=2)(torch.zeros(2, 3, 1, 5, 5))
