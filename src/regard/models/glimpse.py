"""A recurrent network that looks at small patches one after another, and learns where to look next (Mnih 2014).

    l_t ~ N(tanh(W_l h_{t−1}), σ²)                            where to look; the mean itself once it has learned
    g_t = relu(W_s relu(W_p ρ(x, l_t)) + W_w relu(W_q l_t))   what is seen there
    h_t = relu(W_h h_{t−1} + W_g g_t)                         what is known by then
    logits = W h_T                                            after T glimpses

ρ cuts patches out of the picture x around l_t: one of p × p pixels, one of twice the side in the same number of pixels,
and so on. Where to look is drawn, and has no gradient: `Drawn.surrogate` estimates that of the expected loss. While it
learns, the network looks at each picture K times, along other paths.

B batch  C channels  K paths  T glimpses  M width  S scales
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from regard.attention.recorder import deliver, watching
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.glimpse import covered, levels, patches
from regard.layers.places import Anywhere, PlacesName, places
from regard.models.choice import beyond_others
from regard.models.facts import Grid, PictureConfig

WEIGHT = 0.1  # of what the draws learn, so that their noise does not drown what seeing learns
MOST_CELLS = 28  # along one side of the grid that shows what was looked at


class GlimpseConfig(PictureConfig):
    """[model] of kind = "glimpse"."""

    kind: Literal["glimpse"] = "glimpse"
    width: PositiveInt = 256
    glimpses: PositiveInt = 6  # T
    patch: PositiveInt = 8  # p, in pixels
    scales: PositiveInt = 2  # patches of a glimpse, each twice as wide as the one before
    places: PlacesName = "learned"  # who decides where to look; "random" and "centre" are there to compare with
    deviation: PositiveFloat = 0.15  # σ; the picture reaches from −1 to 1
    paths: PositiveInt = 4  # K
    exploring: float = Field(default=0.5, ge=0.0, lt=1.0)  # share of the paths that look at random places
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)


@dataclass(frozen=True)
class Drawn:
    """What came of a pass that drew where to look: logits (K·B, outputs), all pictures once and then again, and draws
    (K·B, T, 2): the log-probability of a place, and the loss that the baseline expects. The last `exploring` of the
    paths looked at random places, of which nothing is learned but to see."""

    logits: Tensor
    draw: Tensor
    paths: int
    exploring: int = 0
    weight: float = 1.0

    def surrogate(self, losses: Tensor) -> Tensor:
        """A term for Σ losses (K·B,) that makes its gradient an unbiased estimate of that of the expected loss.

            Σ_t weight (L − b_t − m_t) log p(l_t) + ½ Σ_t (b_t − L)²         over the paths that do not explore

        All draws of a path lead to its one loss L, which comes after the last of them. The baseline b_t learns L; m_t
        is the mean of L − b_t over the other paths of the picture, whose draws are independent (Kool 2019). The factor
        L − b_t − m_t counts as a constant, and the value of the whole is 0.
        """
        draw = self.draw.unflatten(0, (self.paths, -1))[: self.paths - self.exploring]  # (K′, B, T, 2)
        log_probability, baseline = draw.unbind(-1)
        error = losses.detach().view(self.paths, -1, 1)[: len(draw)] - baseline
        beyond = beyond_others(error.detach(), torch.ones_like(baseline))
        surrogate = (self.weight * beyond * log_probability + error.square() / 2).sum()
        return surrogate - surrogate.detach()


class Glimpse(nn.Module):
    """pictures (B, channels, rows, columns) → logits (B, outputs)"""

    alignment = "glimpses"

    def __init__(self, config: GlimpseConfig, *, channels: int, rows: int, columns: int, outputs: int) -> None:
        super().__init__()
        c, half = config, max(config.width // 2, 1)
        self.glimpses, self.patch, self.scales, self.paths = c.glimpses, c.patch, c.scales, c.paths
        self.exploring = int(c.exploring * c.paths)
        self.pixels, self.cells = (rows, columns), Grid(min(rows, MOST_CELLS), min(columns, MOST_CELLS))
        self.places = places(c.places, width=c.width, deviation=c.deviation)  # W_l, and the baseline
        self.anywhere = Anywhere()
        self.patches = Linear(c.scales * channels * c.patch**2, half)  # W_p
        self.place = Linear(2, half)  # W_q
        self.seen, self.seen_where = Linear(half, c.width), Linear(half, c.width)  # W_s, W_w
        self.before, self.glimpse = Linear(c.width, c.width), Linear(c.width, c.width)  # W_h, W_g
        self.dropout, self.output = Dropout(c.dropout), Linear(c.width, outputs)
        self.width = c.width

    def forward(self, pictures: Tensor) -> Tensor:
        return self._read(pictures).logits

    def drawn(self, pictures: Tensor) -> Drawn:
        """The logits of all paths, and the draws that led to them."""
        exploring = self.exploring * len(pictures)
        read = self._read(pictures.repeat(self.paths, 1, 1, 1), exploring=exploring)
        return replace(read, paths=self.paths, exploring=self.exploring, weight=WEIGHT)

    def _read(self, pictures: Tensor, *, exploring: int = 0) -> Drawn:
        """One pass; the last `exploring` rows look at random places."""
        pyramid = levels(pictures, self.scales)
        hidden = pictures.new_zeros(len(pictures), self.width)
        draws, looked = [], []
        for _ in range(self.glimpses):
            place, draw = self.places(hidden)
            if exploring:
                place = torch.cat([place[:-exploring], self.anywhere(hidden[-exploring:])[0]])
            draws.append(draw)
            looked.append(place.clamp(-1, 1))
            hidden = (self.before(hidden) + self.glimpse(self._glimpse(pyramid, looked[-1]))).relu()
        if watching("glimpses"):
            cells = self.cells.rows, self.cells.columns
            path = torch.stack(looked, 1)  # (B, T, 2)
            shares = covered(path, pixels=self.pixels, cells=cells, size=self.patch, scales=self.scales)
            deliver(shares.unsqueeze(1), part="glimpses")
        return Drawn(self.output(self.dropout(hidden)), torch.stack(draws, 1), paths=1)

    def _glimpse(self, pyramid: list[Tensor], place: Tensor) -> Tensor:
        seen = self.patches(patches(pyramid, place, size=self.patch).flatten(1)).relu()
        return (self.seen(seen) + self.seen_where(self.place(place).relu())).relu()

    def grids(self) -> Mapping[str, Grid]:
        steps = tuple(f"glimpse {number + 1}" for number in range(self.glimpses))
        return {"source": self.cells, "glimpses": Grid(0, 0, steps)}

    def looks(self, path: str) -> tuple[str, str]:
        return "glimpses", "source"
