"""Performer: exp(q·k) is the mean of φ(q)·φ(k) over random features, so that the cost grows with n.

    φ(x)_r = exp(w_r·x − ‖x‖²/2) / √m        w_1 … w_m orthogonal, each normal        Choromanski 2021 (FAVOR+)
    out_i = Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j)

B batch  H heads  Q queries  K keys  D width of a head  M width of the model  m features
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from regard.attention.cache import Past, Projected
from regard.attention.exact import Bias
from regard.attention.heads import MultiHead
from regard.attention.patterns import Pattern
from regard.attention.positions import Position
from regard.errors import RegardError


class Performer(MultiHead):
    """MultiHead over itself by positive random features.   x (B, Q, M) → (B, Q, M)"""

    REDRAW: ClassVar[int] = 1000  # training steps

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        key_value_heads: int | None = None,
        pattern: Pattern | None = None,
        position: Position | None = None,
        bias: bool = True,
        features: int | None = None,
        redraw: int = REDRAW,
        hyperbolic: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(
            width, heads=heads, key_value_heads=key_value_heads, pattern=pattern, position=position, bias=bias
        )
        self.features, self.redraw, self.hyperbolic, self.seed = features, redraw, hyperbolic, seed

    def look(self, query: Tensor, new: Projected, cache: Past | None, *, pattern: Pattern, bias: Bias | None) -> Tensor:
        raise RegardError("Performer is not computed yet")
