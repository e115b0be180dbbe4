"""Pictures changed at random while a model learns, a whole batch at a time.

    flip        left and right exchanged, in half of the pictures
    crop        shifted by up to so many pixels each way; black comes in from outside
    operations  so many operations for each picture, drawn from fourteen            Cubuk 2020 (RandAugment)
    erase       a rectangle of random pixels, in this share of the pictures         Zhong 2020 (random erasing)
    mixup       λ x_i + (1 − λ) x_j with both labels, λ ~ Beta(α, α)                 Zhang 2018 (mixup)

Every draw comes from the generator that is given, so that a run can be resumed.

B batch  H height  W width  C channels
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy
import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor
from torch.nn import functional as F

from regard.checking import Settings

STRONGEST = 10.0
SHARES = (0.02, 1 / 3)  # of a picture that is erased
ASPECTS = (0.3, 1 / 0.3)  # height over width of what is erased
BRIGHTNESS = (0.299, 0.587, 0.114)  # shares of red, green and blue


class Augment(Settings):
    """[data.augment]; every change is off unless it is given."""

    flip: bool = Field(False, description="exchange left and right in half of the pictures")
    crop: NonNegativeInt = Field(0, description="shift pictures by up to so many pixels each way")
    operations: NonNegativeInt = Field(0, le=10, description="RandAugment: operations on each picture")
    strength: float = Field(5.0, ge=0, le=STRONGEST, description="RandAugment: how strong they are, 0 to 10")
    erase: float = Field(0.0, ge=0, le=1, description="share of pictures in which a rectangle is erased")
    mixup: float = Field(0.0, ge=0, description="α of mixup; 0 mixes nothing")

    def apply(self, pictures: Tensor, generator: numpy.random.Generator) -> Tensor:
        """pictures (B, H, W, C) of bytes → the same shape, each picture changed by itself"""
        if self.crop or self.flip:
            pictures = shifted(pictures, self.crop, generator, flip=self.flip)
        for _ in range(self.operations):
            pictures = operated(pictures, self.strength, generator)
        return erased(pictures, self.erase, generator) if self.erase else pictures


def shifted(pictures: Tensor, most: int, generator: numpy.random.Generator, *, flip: bool) -> Tensor:
    """Each picture shifted by up to `most` pixels each way, half of them flipped: (B, H, W, C) → (B, H, W, C)"""
    count, height, width, _ = pictures.shape
    padded = F.pad(pictures, (0, 0, most, most, most, most))
    begin = torch.from_numpy(generator.integers(0, 2 * most + 1, size=(2, count, 1)))
    rows = begin[0] + torch.arange(height)  # (B, H)
    columns = begin[1] + torch.arange(width)
    if flip:
        columns = torch.where(torch.from_numpy(generator.random((count, 1)) < 0.5), columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def erased(pictures: Tensor, share: float, generator: numpy.random.Generator) -> Tensor:
    """A rectangle of random pixels in a share of the pictures: (B, H, W, C) → (B, H, W, C)"""
    count, height, width, _ = pictures.shape
    area = generator.uniform(*SHARES, size=count) * height * width
    aspect = numpy.exp(generator.uniform(math.log(ASPECTS[0]), math.log(ASPECTS[1]), size=count))
    tall = numpy.minimum(numpy.sqrt(area * aspect).round().astype(numpy.int64), height)
    wide = numpy.minimum(numpy.sqrt(area / aspect).round().astype(numpy.int64), width)
    tall[generator.random(count) >= share] = 0
    top, left = generator.integers(0, height - tall + 1), generator.integers(0, width - wide + 1)
    inside = _between(top, tall, height)[:, :, None] & _between(left, wide, width)[:, None, :]  # (B, H, W)
    noise = torch.from_numpy(generator.integers(0, 256, size=tuple(pictures.shape), dtype=numpy.uint8))
    return torch.where(torch.from_numpy(inside)[..., None], noise, pictures)


def _between(
    begin: numpy.typing.NDArray[numpy.int64], size: numpy.typing.NDArray[numpy.int64], end: int
) -> numpy.typing.NDArray[numpy.bool_]:
    at = numpy.arange(end)
    found: numpy.typing.NDArray[numpy.bool_] = (at >= begin[:, None]) & (at < (begin + size)[:, None])
    return found


def mixed(
    pictures: Tensor, wanted: Tensor, alpha: float, generator: numpy.random.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Each picture mixed with another of the batch.

    pictures (B, H, W, C), wanted (B,) → mixed pictures (B, H, W, C), both labels (B, 2), and their shares (B, 2)
    """
    count = len(pictures)
    share = torch.from_numpy(generator.beta(alpha, alpha, size=count).astype(numpy.float32))
    other = torch.from_numpy(generator.permutation(count))
    found = torch.lerp(pictures[other].float(), pictures.float(), share.view(-1, 1, 1, 1))
    return _bytes(found), torch.stack([wanted, wanted[other]], 1), torch.stack([share, 1 - share], 1)


# RandAugment: pictures (b, C, H, W) as floats from 0 to 255, signed strengths (b,) from −1 to 1


def operated(pictures: Tensor, strength: float, generator: numpy.random.Generator) -> Tensor:
    """One of the operations on each picture, each operation on all of its pictures: (B, H, W, C) → (B, H, W, C)"""
    drawn = torch.from_numpy(generator.integers(0, len(OPERATIONS) + 1, size=len(pictures)))  # the last does nothing
    signs = torch.from_numpy(generator.choice([-1.0, 1.0], size=len(pictures)).astype(numpy.float32))
    found = pictures.clone()
    for number, operation in enumerate(OPERATIONS):
        rows = (drawn == number).nonzero()[:, 0]
        if len(rows):
            some = pictures[rows].permute(0, 3, 1, 2).float()
            found[rows] = _bytes(operation(some, signs[rows] * (strength / STRONGEST))).permute(0, 2, 3, 1)
    return found


def auto_contrast(x: Tensor, _strength: Tensor) -> Tensor:
    """The darkest value of a channel becomes 0, the lightest 255."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) * (255 / (high - low).clamp(min=1)), x)


def equalize(x: Tensor, _strength: Tensor) -> Tensor:
    """Every range of values gets the same share of a channel's pixels, as far as values can be told apart."""
    values = x.long().flatten(2)  # (b, C, H·W)
    counts = torch.zeros(*values.shape[:2], 256).scatter_add_(2, values, torch.ones_like(values, dtype=torch.float32))
    last = counts.gather(2, values.amax(2, keepdim=True))
    step = ((values.shape[2] - last) / 255).floor()
    before = counts.cumsum(2) - counts
    table = ((before + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(max=255)
    return torch.where(step > 0, table.gather(2, values), values.float()).view_as(x)


def solarize(x: Tensor, strength: Tensor) -> Tensor:
    """Values from a threshold on are inverted: 256 (1 − |s|)."""
    return torch.where(x >= (256 * (1 - strength.abs())).view(-1, 1, 1, 1), 255 - x, x)


def posterize(x: Tensor, strength: Tensor) -> Tensor:
    """Only the first 8 − 4 |s| bits of each value are kept."""
    step = 2 ** (4 * strength.abs()).round().view(-1, 1, 1, 1)
    return (x / step).floor() * step


def brightness(x: Tensor, strength: Tensor) -> Tensor:
    return _away(torch.zeros_like(x), x, strength)


def contrast(x: Tensor, strength: Tensor) -> Tensor:
    return _away(grey(x).mean((2, 3), keepdim=True).round().expand_as(x), x, strength)


def colour(x: Tensor, strength: Tensor) -> Tensor:
    return _away(grey(x).round().expand_as(x), x, strength)


def sharpness(x: Tensor, strength: Tensor) -> Tensor:
    """Away from the smoothed picture; the border stays as it is."""
    kernel = torch.tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13
    smooth = x.clone()
    if min(x.shape[2:]) > 2:
        smooth[:, :, 1:-1, 1:-1] = (
            F.conv2d(x.flatten(0, 1)[:, None], kernel[None, None])
            .view(*x.shape[:2], *(n - 2 for n in x.shape[2:]))
            .round()
        )
    return _away(smooth, x, strength)


def grey(x: Tensor) -> Tensor:
    """The brightness of each pixel: (b, C, H, W) → (b, 1, H, W)"""
    shares = x.new_tensor(BRIGHTNESS if x.shape[1] == 3 else [1 / x.shape[1]] * x.shape[1])
    return torch.einsum("bchw,c->bhw", x, shares)[:, None]


def _away(plain: Tensor, x: Tensor, strength: Tensor) -> Tensor:
    """From the plain picture through x and beyond: plain + (1 + 0.9 s) (x − plain)"""
    return torch.lerp(plain, x, (1 + 0.9 * strength).view(-1, 1, 1, 1))


def rotate(x: Tensor, strength: Tensor) -> Tensor:
    """By up to 30 degrees."""
    angle = strength * math.radians(30)
    ratio = x.shape[2] / x.shape[3]
    turn = [angle.cos(), -angle.sin() * ratio, angle.sin() / ratio, angle.cos()]
    return _moved(x, turn, None)


def shear_x(x: Tensor, strength: Tensor) -> Tensor:
    one = torch.ones_like(strength)
    return _moved(x, [one, 0.3 * strength * x.shape[2] / x.shape[3], 0 * one, one], None)


def shear_y(x: Tensor, strength: Tensor) -> Tensor:
    one = torch.ones_like(strength)
    return _moved(x, [one, 0 * one, 0.3 * strength * x.shape[3] / x.shape[2], one], None)


def translate_x(x: Tensor, strength: Tensor) -> Tensor:
    """By up to 30 % of the width."""
    one = torch.ones_like(strength)
    return _moved(x, [one, 0 * one, 0 * one, one], torch.stack([0.6 * strength, 0 * one], 1))


def translate_y(x: Tensor, strength: Tensor) -> Tensor:
    one = torch.ones_like(strength)
    return _moved(x, [one, 0 * one, 0 * one, one], torch.stack([0 * one, 0.6 * strength], 1))


def _moved(x: Tensor, matrix: list[Tensor], shift: Tensor | None) -> Tensor:
    """The picture read at A p + t for each place p, in coordinates from −1 to 1; black outside."""
    linear = torch.stack(matrix, 1).view(-1, 2, 2)
    there = linear.new_zeros(len(x), 2) if shift is None else shift
    grid = F.affine_grid(torch.cat([linear, there[:, :, None]], 2), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


def _bytes(x: Tensor) -> Tensor:
    return x.round().clamp(0, 255).to(torch.uint8)


Operation = Callable[[Tensor, Tensor], Tensor]
OPERATIONS: tuple[Operation, ...] = (
    *(auto_contrast, equalize, solarize, posterize, brightness, contrast, colour, sharpness),
    *(rotate, shear_x, shear_y, translate_x, translate_y),
)
