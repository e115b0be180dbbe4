"""Who decides where a glimpse looks: what is known by then, chance, or nobody.

    learned   l ~ N(tanh(W h), σ²) while it learns, the mean itself otherwise           Mnih 2014
    random    l ~ U(−1, 1)², always
    centre    l = 0

Each is called with what is known, h (B, M), and returns a place (B, 2) and its draw (B, 2): the log-probability of the
place, and the loss that the baseline expects. Where nothing is learned, both are 0.

B batch  M width
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from regard.kernels.linear import Linear

PlacesName = Literal["learned", "random", "centre"]


class Learned(nn.Module):
    """l ~ N(tanh(W h), σ²), as it is drawn: it may lie outside of the picture."""

    def __init__(self, width: int, *, deviation: float) -> None:
        super().__init__()
        self.where, self.baseline, self.deviation = Linear(width, 2), Linear(width, 1), deviation

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.where(hidden).tanh()
        place = self.draw(mean.detach())
        far = ((place - mean) / self.deviation).square().sum(-1, keepdim=True)
        log_probability = -far / 2 - math.log(2 * math.pi * self.deviation**2)  # (B, 1)
        return place, torch.cat([log_probability, self.baseline(hidden.detach())], -1)

    def draw(self, mean: Tensor) -> Tensor:
        """(B, 2) → (B, 2)"""
        return mean + self.deviation * torch.randn_like(mean) if self.training else mean


class Anywhere(nn.Module):
    """l ~ U(−1, 1)²"""

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * torch.rand_like(hidden[:, :2]) - 1, torch.zeros_like(hidden[:, :2])


class Centre(nn.Module):
    """l = 0"""

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(hidden[:, :2]), torch.zeros_like(hidden[:, :2])


def places(name: PlacesName, *, width: int, deviation: float) -> Learned | Anywhere | Centre:
    """The part with a name."""
    if name == "learned":
        return Learned(width, deviation=deviation)
    return Anywhere() if name == "random" else Centre()
