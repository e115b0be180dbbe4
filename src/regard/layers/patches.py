"""Pictures as sequences of vectors: patches that are cut out, or small convolutions with pooling.

B batch  C channels  H height  W width  N patches, row by row  M width of the model
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.positions import Position
from regard.attention.recorder import deliver, watching
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout


class Cut(nn.Module):
    """A linear map of each square patch of p × p pixels.

        x_n = W [pixels of patch n] + b                                                    Dosovitskiy 2021, equation 1

    (B, C, H, W) → (B, N, M).   Pixels at the right and below that do not fill a patch are not read.
    """

    def __init__(self, channels: int, *, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.linear = Linear(channels * size**2, width)

    def grid(self, rows: int, columns: int) -> tuple[int, int]:
        """How many patches a picture of that size has, down and across."""
        return rows // self.size, columns // self.size

    def forward(self, pictures: Tensor) -> Tensor:
        size = self.size
        rows, columns = self.grid(*pictures.shape[2:])
        whole = pictures[:, :, : rows * size, : columns * size]
        parts = whole.unflatten(3, (columns, size)).unflatten(2, (rows, size))  # (B, C, rows, p, columns, p)
        return self.linear(parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2))


class Convolved(nn.Module):
    """Convolutions over k × k pixels, each followed by ReLU and a pooling that halves both sides.

        x ← maxpool(relu(W ∗ x))   for each convolution; pooling over 3 × 3 with stride 2     Hassani 2021, equation 2

    (B, C, H, W) → (B, N, M).   All but the last have `first` channels and the last has M.
    """

    def __init__(self, channels: int, *, convolutions: int, kernel: int, first: int, width: int) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise RegardError(f"kernel={kernel} has no middle; choose an odd number of pixels, such as 3")
        widths = [channels, *[first] * (convolutions - 1), width]
        self.layers = nn.ModuleList(_convolution(before, after, kernel) for before, after in pairwise(widths))

    def grid(self, rows: int, columns: int) -> tuple[int, int]:
        """How many patches a picture of that size has, down and across."""
        for _ in self.layers:
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        return rows, columns

    def forward(self, pictures: Tensor) -> Tensor:
        x = _channels_last(pictures)
        for layer in self.layers:
            x = F.max_pool2d(
                layer(x), 3, stride=2, padding=1
            ).relu_()  # as relu, then pooling, on a quarter of the numbers
        return x.permute(0, 2, 3, 1).flatten(1, 2)  # a view of channels that stand last


def _channels_last(pictures: Tensor) -> Tensor:
    """The same pictures (B, C, H, W) with all channels of a pixel beside each other, which convolutions and pooling on
    a CPU are fastest with. One channel is so already, but torch knows it by the strides alone."""
    if pictures.shape[1] == 1:
        return pictures.reshape(len(pictures), *pictures.shape[2:], 1).permute(0, 3, 1, 2)
    return pictures.contiguous(memory_format=torch.channels_last)


def _convolution(before: int, after: int, kernel: int) -> nn.Conv2d:
    layer = nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight)
    return layer


class PatchEmbedding(nn.Module):
    """Patches with their positions, after a class token if there is one: pictures (B, C, H, W) → (B, N or 1 + N, M)"""

    def __init__(
        self, patches: Cut | Convolved, *, width: int, token: bool, position: Position, dropout: float
    ) -> None:
        super().__init__()
        self.patches, self.position = patches, position
        self.token = nn.Parameter(torch.empty(1, width).normal_(std=0.02)) if token else None
        self.dropout = Dropout(dropout)

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.patches(pictures)
        if self.token is not None:
            x = torch.cat([self.token.to(x.dtype).expand(len(x), 1, -1), x], 1)
        return self.dropout(self.position.on_input(x, torch.arange(x.shape[1], device=x.device)))


class AttentionPooling(nn.Module):
    """The mean of all vectors, weighted by attention with one learned query.

        w = softmax_n(a · x_n + b)        out = Σ_n w_n x_n                     Hassani 2021, 3.2 (sequence pooling)

    x (B, N, M) → (B, M)
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.score(x).transpose(1, 2).softmax(-1)  # (B, 1, N)
        if watching():
            deliver(weights.unsqueeze(1))
        return (weights @ x).squeeze(1)
