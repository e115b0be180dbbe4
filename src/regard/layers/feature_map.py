"""Attention between the places of a feature map: each pixel of a picture, or of each frame of a video, is a query.

N pictures  C channels  P places: the H·W pixels of a picture, or the T·H·W pixels of a video
"""

from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.formula import attend
from regard.attention.recorder import deliver, watching
from regard.errors import RegardError, unknown_name
from regard.kernels.linear import Linear, map_together

NonLocalScore = Literal["embedded_gaussian", "gaussian", "dot_product"]


class AttentionLayer2d(nn.Module):
    """Every pixel looks at all pixels.

        y_i = Σ_j w_ij V x_j        w_i = softmax_j( (Q x_i)ᵀ K x_j / √`key_width` )

    x (N, C, H, W) → (N, `width`, H, W).   Time grows with (H·W)². Nothing depends on where a pixel is.
    """

    def __init__(self, channels: int, *, key_width: int, width: int) -> None:
        super().__init__()
        _require_positive(channels=channels, key_width=key_width, width=width)
        self.query = Linear(channels, key_width, bias=False)
        self.key = Linear(channels, key_width, bias=False)
        self.value = Linear(channels, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        _require_map(x, self.query.in_features, axes=(4,))
        query, key, value = (y.unsqueeze(1) for y in map_together(_places(x), self.query, self.key, self.value))
        y = attend(query, key, value)  # (N, 1, P, width)
        return y.squeeze(1).transpose(1, 2).unflatten(2, x.shape[2:])


class NonLocal(nn.Module):
    """Every place looks at all places, and adds what it found to itself.

        z_i = x_i + W_z y_i        y_i = Σ_j f(x_i, x̂_j) g(x̂_j) / c                            Wang 2018, equations 1, 6

        embedded_gaussian    f = exp( θ(x_i)ᵀ φ(x̂_j) )        c = Σ_j f, so that f / c is a softmax
        gaussian             f = exp( x_iᵀ x̂_j )              c = Σ_j f
        dot_product          f = θ(x_i)ᵀ φ(x̂_j)               c is the number of keys, and weights may be negative

    x (N, C, H, W), or (N, C, T, H, W) of a video → the same shape.   θ, φ and g map C channels to `hidden`. x̂ is x, or
    with `pool` the maximum of each 2 × 2 pixels, which leaves a quarter of the keys. W_z starts at 0, so that the block
    starts as the identity and may be put into a trained network. Time grows with P², of the dot product with P.
    """

    def __init__(
        self,
        channels: int,
        *,
        hidden: int | None = None,
        score: NonLocalScore = "embedded_gaussian",
        pool: bool = False,
    ) -> None:
        super().__init__()
        if score not in get_args(NonLocalScore):
            raise unknown_name("score", score, get_args(NonLocalScore))
        hidden = max(channels // 2, 1) if hidden is None else hidden
        _require_positive(channels=channels, hidden=hidden)
        embedded = score != "gaussian"
        self.channels, self.score, self.pool = channels, score, pool
        self.query = Linear(channels, hidden) if embedded else nn.Identity()
        self.key = Linear(channels, hidden) if embedded else nn.Identity()
        self.value = Linear(channels, hidden)
        self.output = Linear(hidden, channels)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor) -> Tensor:
        _require_map(x, self.channels, axes=(4, 5))
        looked_at = _places(_halved(x) if self.pool else x)
        query = self.query(_places(x)).unsqueeze(1)  # (N, 1, P, hidden)
        key, value = self.key(looked_at).unsqueeze(1), self.value(looked_at).unsqueeze(1)  # (N, 1, K, hidden)
        y = _averaged(query, key, value) if self.score == "dot_product" else attend(query, key, value, score="dot")
        return x + self.output(y.squeeze(1)).transpose(1, 2).unflatten(2, x.shape[2:])


def _averaged(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Σ_j (q_iᵀ k_j / K) v_j: (N, 1, P, D), (N, 1, K, D), (N, 1, K, D) → (N, 1, P, D)

    Without a softmax the keys and values can be multiplied first, unless the weights are watched.
    """
    query = query / key.shape[2]
    if not watching():
        return query @ (key.transpose(2, 3) @ value)
    weights = query @ key.transpose(2, 3)
    deliver(weights)
    return weights @ value


def _halved(x: Tensor) -> Tensor:
    """The maximum of each 2 × 2 pixels; at an odd edge, of those that there are.

    (N, C, …, H, W) → (N, C, …, ⌈H/2⌉, ⌈W/2⌉)
    """
    return F.max_pool2d(x.flatten(1, -3), 2, ceil_mode=True).unflatten(1, x.shape[1:-2])


def _places(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)  # (N, C, …) → (N, P, C)


def _require_map(x: Tensor, channels: int, *, axes: tuple[int, ...]) -> None:
    if x.dim() not in axes or x.shape[1] != channels:
        expected = " or ".join({4: f"(N, {channels}, H, W)", 5: f"(N, {channels}, T, H, W)"}[number] for number in axes)
        raise RegardError(f"x has the shape {tuple(x.shape)}; expected {expected}")


def _require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise RegardError(f"{name}={size} must be at least 1")
