"""R-Drop: two passes with different dropout learn to give the same distribution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.kernels.linear import GRAIN, Linear, rounded

ROWS = GRAIN  # rows of each pass that are computed at a time


def r_drop_loss(
    first: Tensor, second: Tensor, output: Linear, target: Tensor, *, weight: float, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The mean loss of two passes and their disagreement, summed over rows; and the losses of each row (no gradient).

        Σ_n ½ (ℓ(p_n, y_n) + ℓ(q_n, y_n)) + D_n       D_n = α ½ (KL(p_n ‖ q_n) + KL(q_n ‖ p_n))      Liang 2021, R-Drop
        ℓ(p, y) = −(1 − ε) log p(y) − ε/V Σ_v log p(v)        p_n = softmax(W h_n + b), q_n alike from the second pass

    first (N, M), second (N, M), target (N,) → (), (2N,).   The losses of a row are twice the part of the sum that
    depends on that row of that pass: ℓ(p_n, y_n) + 2 D_n for the first pass, ℓ(q_n, y_n) + 2 D_n for the second. A
    model that draws at random adds half of their `Rollout.surrogate`. As in `vocabulary_loss`, each logit is computed
    once, for loss and gradient, and not kept.
    """
    return _RDrop.apply(first, second, output.weight, output.bias, target, weight, smoothing, output.products)


class _RDrop(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        first: Tensor,
        second: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        target: Tensor,
        weight: float,
        smoothing: float,
        precision: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        device = first.device.type
        if torch.is_autocast_enabled(device):
            precision = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            total, losses, *gradients = _in_rows(
                torch.stack((first, second)), matrix, bias, target, weight, smoothing, precision
            )
        context.save_for_backward(*gradients)
        context.mark_non_differentiable(losses)
        return total, losses

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        to_hidden, to_matrix, to_bias = (None if grad is None else grad * above[0] for grad in context.saved_tensors)
        return to_hidden[0], to_hidden[1], to_matrix, to_bias, None, None, None, None  # type: ignore[index]


def _in_rows(
    hidden: Tensor,
    matrix: Tensor,
    bias: Tensor | None,
    target: Tensor,
    weight: float,
    smoothing: float,
    precision: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """The sum, the losses of the rows, and the gradients of the sum to hidden (2, N, M), matrix (V, M), bias (V,)."""
    total = matrix.new_zeros(())
    losses, to_hidden, to_matrix = (
        matrix.new_empty(hidden.shape[:2]),
        torch.empty_like(hidden),
        torch.zeros_like(matrix),
    )
    to_bias = None if bias is None else torch.zeros_like(bias)
    rough = matrix.to(precision)
    for start in range(0, len(target), ROWS):
        part = slice(start, start + ROWS)
        wanted = target[part].repeat(2).unsqueeze(1)  # (2R, 1)
        rows = rounded(hidden[:, part].flatten(0, 1), precision)
        logits = (rows @ rough.T)[: len(wanted)].to(matrix.dtype)
        if bias is not None:
            logits += bias
        logs = logits.log_softmax(-1)  # (2R, V)
        right = -logs.gather(1, wanted)
        losses[:, part] = ((1 - smoothing) * right - smoothing * logs.mean(1, keepdim=True)).view(2, -1)
        shares = torch.exp(logs, out=logits)
        apart, gradient = _disagreement(shares, logs, weight)
        total += losses[:, part].sum() / 2 + apart.sum()
        losses[:, part] += 2 * apart
        gradient.scatter_add_(1, wanted, gradient.new_full(wanted.shape, (smoothing - 1) / 2))
        gradient -= smoothing / (2 * len(matrix))
        if to_bias is not None:
            to_bias += gradient.sum(0)
        back = rounded(gradient, precision)
        to_hidden[:, part] = (back @ rough)[: len(wanted)].to(hidden.dtype).view_as(to_hidden[:, part])
        to_matrix += back.T @ rows
    return total, losses.flatten(), to_hidden, to_matrix, to_bias


def _disagreement(shares: Tensor, logs: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """How much the two halves of the rows disagree, and the gradient of its sum to the logits plus half of the shares.

        D = α ½ (KL(p ‖ q) + KL(q ‖ p)) = α/2 (p·r − q·r)        dD/dz_p = α/2 (p ⊙ (r − p·r) + p − q)
        r = log p − log q

    shares (2R, V), logs (2R, V) → (R,), (2R, V).   Half of the shares is what ½ ℓ adds to the gradient.
    """
    (p, q), (log_p, log_q) = shares.chunk(2), logs.chunk(2)
    ratio = log_p.sub_(log_q)
    of_p, of_q = (torch.linalg.vecdot(x, ratio).unsqueeze(1) for x in (p, q))  # (R, 1)
    gradient = torch.empty_like(shares)
    for rows, mine, other, mean, sign in ((0, p, q, of_p, 1), (1, q, p, of_q, -1)):
        half = gradient.chunk(2)[rows]
        torch.mul(ratio, sign * weight / 2, out=half)
        half.add_((1 + weight) / 2 - sign * weight / 2 * mean).mul_(mine).sub_(other, alpha=weight / 2)
    return (of_p - of_q).squeeze(1) * (weight / 2), gradient
