"""Dropout that is cheap on a CPU, and dropout of whole rows."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError

LOWEST = torch.iinfo(torch.int64).min


class Dropout(nn.Module):
    """While training, an element is zero with probability p and otherwise divided by 1 − p; in evaluation it stays.

        y = x ⊙ m / (1 − p),   m ~ Bernoulli(1 − p)               Srivastava 2014, scaled while training and not after

    x (…) → (…).   On a CPU, m comes from random bytes, eight for every 64-bit draw, which takes about a quarter of the
    time of torch's own. A byte knows 256 levels: p is rounded to a 256th (0.1 → 26/256; never to 0 or 1), and y
    is scaled by the rounded p, so that the expectation is exact. Other devices use torch's dropout with p itself.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise RegardError(f"dropout={p} is not a share that can be dropped; it must be at least 0 and less than 1")
        self.p = p
        self.threshold = min(max(round(256 * p), 1), 255)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        # Comparing bytes in place and multiplying floats are vectorised; torch's conversions from bool are not.
        words = torch.empty(x.numel() // 8 + 1, dtype=torch.int64).random_(LOWEST, None)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape).ge_(self.threshold)
        return x * kept.to(x.dtype).mul_(256 / (256 - self.threshold))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class DropRows(nn.Module):
    """While training, a whole row is zero with probability p and otherwise divided by 1 − p; in evaluation it stays.

    y_b = x_b m_b / (1 − p),   m_b ~ Bernoulli(1 − p)        x (B, …) → (B, …)
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise RegardError(f"p={p} is not a share that can be dropped; it must be at least 0 and less than 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        kept = x.new_empty(len(x), *[1] * (x.dim() - 1)).bernoulli_(1 - self.p)
        return x * kept.div_(1 - self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"
