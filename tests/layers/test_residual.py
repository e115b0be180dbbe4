"""The residual blocks, beside those of Hugging Face's ResNet with the same weights and norms."""

from collections.abc import Iterator
from typing import TypeVar

import pytest
import torch
from torch import nn
from transformers.models.resnet.modeling_resnet import ResNetBasicLayer, ResNetBottleNeckLayer

from regard.layers.residual import Basic, Bottleneck, basics, bottlenecks

Block = TypeVar("Block", bound=nn.Module)


def disturbed(block: Block) -> Block:
    """A block whose weights are all drawn: the last norm would start at 0 and hide the convolutions."""
    torch.manual_seed(0)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)
    return block


def test_a_basic_block_is_that_of_transformers() -> None:
    ours, theirs = disturbed(Basic(16, width=16)), ResNetBasicLayer(16, 16)
    first, second = theirs.layer
    first.convolution, first.normalization = ours.first, ours.norm
    second.convolution, second.normalization = ours.second, ours.last_norm
    x = torch.randn(2, 16, 9, 7)
    torch.testing.assert_close(ours(x), theirs(x))


def test_a_bottleneck_is_that_of_transformers() -> None:
    ours = disturbed(Bottleneck(32, width=8, spatial=nn.Conv2d(8, 8, 3, padding=1, bias=False)))
    theirs = ResNetBottleNeckLayer(32, 32)
    convolutions = (ours.reduce, ours.spatial, ours.expand)
    for layer, convolution, norm in zip(theirs.layer, convolutions, (*ours.norms, ours.last_norm), strict=True):
        layer.convolution, layer.normalization = convolution, norm
    x = torch.randn(2, 32, 9, 7)
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize(
    ("made", "first"), [(basics([1, 2], 8), 8), (bottlenecks([1, 2], 8, lambda _: nn.Identity()), 32)]
)
def test_a_stage_halves_the_places_and_doubles_the_channels(
    made: Iterator[tuple[int, Basic | Bottleneck]], first: int
) -> None:
    x, shapes = torch.randn(2, 8, 9, 7), []
    for stage, block in made:
        x = block(x)
        shapes.append((stage, *x.shape[1:]))
        assert block.channels == x.shape[1]
    assert shapes == [(0, first, 9, 7), (1, 2 * first, 5, 4), (1, 2 * first, 5, 4)]


@pytest.mark.parametrize("halve", [False, True])
def test_a_new_basic_block_hands_its_input_on(halve: bool) -> None:
    block = Basic(8, width=16, halve=halve)
    x = torch.randn(2, 8, 5, 7)
    there = nn.functional.avg_pool2d(x, 2, ceil_mode=True) if halve else x
    torch.testing.assert_close(block(x), block.shortcut(there).relu())
