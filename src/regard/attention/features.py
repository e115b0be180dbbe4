"""Random directions for positive features.

    w_1 … w_m normal in D dimensions; each D of them are orthogonal                       Choromanski 2021, 2.3
    hyperbolic: w_1 … w_{m/2} and their opposites                                         Choromanski 2021, 2.2

Orthogonal directions estimate with less variance than independent ones, and opposite pairs with less still.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError


def draw(features: int, width: int, *, hyperbolic: bool = False, seed: int = 0) -> Tensor:
    """The directions (features, width) that `seed` gives, in double precision, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    if not hyperbolic:
        return _orthogonal(features, width, generator)
    if features % 2:
        raise RegardError(f"features={features}: hyperbolic features come in pairs; choose an even number")
    half = _orthogonal(features // 2, width, generator)
    return torch.cat([half, -half])


def _orthogonal(rows: int, width: int, generator: torch.Generator) -> Tensor:
    """Rows in blocks of `width` that are orthogonal; each row alone is normal."""
    blocks = -(-rows // width)
    normal = torch.randn(2, blocks, width, width, generator=generator, dtype=torch.float64)
    # The signs of R make Q uniform over all rotations and reflections.
    rotation, upper = torch.linalg.qr(normal[0])
    rotation = rotation * upper.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    lengths = torch.linalg.vector_norm(normal[1], dim=-1, keepdim=True)  # χ(width)
    return (rotation.mT * lengths).flatten(0, 1)[:rows]
