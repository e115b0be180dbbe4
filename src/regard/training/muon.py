"""Muon: the update of a matrix is its momentum with all singular values made about equal (Jordan 2024, Liu 2025)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

MATRICES = "matrices"  # the key of a group whose parameters are turned, and not left to AdamW
MOMENTUM = "momentum"
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that takes singular values towards 1
ROUNDS = 5
LIKE_ADAM = 0.2  # the root mean square of AdamW's usual update, so that both take the same learning rates
SMALLEST = 1e-7


class Muon(torch.optim.AdamW):
    """Muon for the groups marked `matrices`, AdamW for the others, with one learning rate.

        m ← μ m + (1 − μ) g,   u = (1 − μ) g + μ m,   w ← w − r (λ w + 0.2 √max(rows, columns) orthogonal(u))

    orthogonal(u) is about U Vᵀ, if u = U S Vᵀ. A kernel of a convolution is a matrix with a row for each output.
    """

    def __init__(
        self, groups: Iterable[dict[str, Any]], *, momentum: float, precision: torch.dtype, **adam: Any
    ) -> None:
        super().__init__(groups, **adam)
        self.momentum, self.precision = momentum, precision

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update. The gradients of matrices are used up, so that AdamW sees only the others."""
        for group in self.param_groups:
            if group[MATRICES]:
                self._turn([each for each in group["params"] if each.grad is not None], group)
        return super().step(closure)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """AdamW's own expects moments for every parameter, to read what old versions of it wrote."""
        torch.optim.Optimizer.__setstate__(self, state)

    def _turn(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        alike: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
        for parameter in parameters:
            update = self._with_momentum(parameter).flatten(1)
            if update.shape[0] > update.shape[1]:
                update = update.T
            alike.setdefault((update.shape[0], update.shape[1]), []).append((parameter, update))
        for (rows, columns), some in alike.items():
            scale = group["lr"] * LIKE_ADAM * max(rows, columns) ** 0.5
            updates = torch.stack([update.to(self.precision) for _, update in some])  # (matrices, rows, columns)
            for (parameter, _), update in zip(some, orthogonal(updates), strict=True):
                flat = parameter.flatten(1)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(
                    (update if update.shape == flat.shape else update.T).reshape(parameter.shape), alpha=scale
                )

    def _with_momentum(self, parameter: Tensor) -> Tensor:
        """The gradient as Nesterov's momentum has it; it is taken from the parameter."""
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        parameter.grad = None
        if MOMENTUM not in state:
            state[MOMENTUM] = torch.zeros_like(parameter)
        momentum: Tensor = state[MOMENTUM].lerp_(gradient, 1 - self.momentum)
        return gradient.lerp(momentum, self.momentum)


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices (B, rows, columns), rows ≤ columns, with singular values of about 1.

    Each is divided by its norm; then X ← aX + (bA + cA²) X with A = XXᵀ, five times.
    """
    a, b, c = COEFFICIENTS
    x = matrices / matrices.flatten(1).norm(dim=1).clamp(min=SMALLEST)[:, None, None]
    for _ in range(ROUNDS):
        products = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(products, products, products, beta=b, alpha=c), x, beta=a)
    return x
