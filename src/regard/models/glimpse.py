"""A recurrent network that looks at small patches one after another, and learns where to look next (Mnih 2014).

    l_t ~ N(tanh(W_l h_{t−1}), σ²)                            where to look; the mean itself once it has learned
    g_t = relu(W_s relu(W_p ρ(x, l_t)) + W_w relu(W_q l_t))   what is seen there
    h_t = relu(W_h h_{t−1} + W_g g_t)                         what is known by then
    logits = W h_T                                            after T glimpses

ρ cuts patches out of the picture x around l_t: one of p × p pixels, one of twice the side in the same number of pixels,
and so on. Where to look is drawn, and has no gradient: `Drawn.surrogate` estimates that of the expected loss.

B batch  C channels  T glimpses  M width  S scales
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.recorder import deliver, watching
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.glimpse import covered, levels, patches
from regard.models.choice import Rollout
from regard.models.facts import Grid, PictureConfig

MOST_CELLS = 28  # along one side of the grid that shows what was looked at


class GlimpseConfig(PictureConfig):
    """[model] of kind = "glimpse"."""

    kind: Literal["glimpse"] = "glimpse"
    width: PositiveInt = 256
    glimpses: PositiveInt = 6  # T
    patch: PositiveInt = 8  # p, in pixels
    scales: PositiveInt = 2  # patches of a glimpse, each twice as wide as the one before
    deviation: PositiveFloat = 0.15  # σ; the picture reaches from −1 to 1
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)


@dataclass(frozen=True)
class Drawn:
    """What came of a pass that drew where to look: logits (B, outputs), and draws (B, T, 2) as in `Rollout`."""

    logits: Tensor
    draw: Tensor

    def surrogate(self, losses: Tensor) -> Tensor:
        """A term for Σ losses (B,) that makes its gradient an unbiased estimate of that of the expected loss.

        All draws of a picture lead to its one loss, which comes after the last of them. Its value is 0.
        """
        at_the_end = F.pad(losses.unsqueeze(1), (self.draw.shape[1] - 1, 0))  # (B, T)
        counted = torch.ones_like(at_the_end, dtype=torch.bool)
        return Rollout(self.logits, self.draw, lasting=True).surrogate(at_the_end, counted)


class Glimpse(nn.Module):
    """pictures (B, channels, rows, columns) → logits (B, outputs)"""

    alignment = "glimpses"

    def __init__(self, config: GlimpseConfig, *, channels: int, rows: int, columns: int, outputs: int) -> None:
        super().__init__()
        c, half = config, max(config.width // 2, 1)
        self.glimpses, self.patch, self.scales, self.deviation = c.glimpses, c.patch, c.scales, c.deviation
        self.pixels, self.cells = (rows, columns), Grid(min(rows, MOST_CELLS), min(columns, MOST_CELLS))
        self.where = Linear(c.width, 2)  # W_l
        self.patches = Linear(c.scales * channels * c.patch**2, half)  # W_p
        self.place = Linear(2, half)  # W_q
        self.seen, self.seen_where = Linear(half, c.width), Linear(half, c.width)  # W_s, W_w
        self.before, self.glimpse = Linear(c.width, c.width), Linear(c.width, c.width)  # W_h, W_g
        self.baseline = Linear(c.width, 1)
        self.dropout, self.output = Dropout(c.dropout), Linear(c.width, outputs)
        self.width = c.width

    def forward(self, pictures: Tensor) -> Tensor:
        return self.drawn(pictures).logits

    def drawn(self, pictures: Tensor) -> Drawn:
        """The logits, and the draws that led to them."""
        pyramid = levels(pictures, self.scales)
        hidden = pictures.new_zeros(len(pictures), self.width)
        draws, places = [], []
        for _ in range(self.glimpses):
            mean = self.where(hidden).tanh()
            drawn = self.draw(mean.detach())
            draws.append(torch.cat([self._log_probability(drawn, mean), self.baseline(hidden.detach())], -1))
            places.append(drawn.clamp(-1, 1))
            hidden = (self.before(hidden) + self.glimpse(self._glimpse(pyramid, places[-1]))).relu()
        if watching("glimpses"):
            kept = torch.stack(places, 1)  # (B, T, 2)
            cells = self.cells.rows, self.cells.columns
            shares = covered(kept, pixels=self.pixels, cells=cells, size=self.patch, scales=self.scales)
            deliver(shares.unsqueeze(1), part="glimpses")
        return Drawn(self.output(self.dropout(hidden)), torch.stack(draws, 1))

    def draw(self, mean: Tensor) -> Tensor:
        """Where to look, given where to look on average: (B, 2) → (B, 2)"""
        return mean + self.deviation * torch.randn_like(mean) if self.training else mean

    def _log_probability(self, drawn: Tensor, mean: Tensor) -> Tensor:
        far = ((drawn - mean) / self.deviation).square().sum(-1, keepdim=True)
        return -far / 2 - math.log(2 * math.pi * self.deviation**2)  # (B, 1)

    def _glimpse(self, pyramid: list[Tensor], place: Tensor) -> Tensor:
        seen = self.patches(patches(pyramid, place, size=self.patch).flatten(1)).relu()
        return (self.seen(seen) + self.seen_where(self.place(place).relu())).relu()

    def grids(self) -> Mapping[str, Grid]:
        steps = tuple(f"glimpse {number + 1}" for number in range(self.glimpses))
        return {"source": self.cells, "glimpses": Grid(0, 0, steps)}

    def looks(self, path: str) -> tuple[str, str]:
        return "glimpses", "source"
