"""Cross-entropy over a large vocabulary without ever holding all logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.kernels.linear import GRAIN, Linear, rounded

ROWS = 8 * GRAIN  # rows computed at a time: 512 × 10 000 logits stay in the cache of a CPU


def vocabulary_loss(hidden: Tensor, output: Linear, target: Tensor, *, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The smoothed negative log-likelihood of `target`: summed over rows, and of each row (plain numbers, no gradient).

        −(1 − ε) log p_n(y_n) − ε/V Σ_v log p_n(v)        p_n = softmax(W h_n + b)            Szegedy 2016, section 7

    hidden (N, M), target (N,) → (), (N,).   Logits are made, used for loss and gradient, and dropped, `ROWS` at a time:
    memory does not grow with N·V, and each logit is computed once for both directions.
    """
    weight: Tensor = output.weight
    bias: Tensor | None = output.bias
    if not torch.is_grad_enabled():  # ask here: inside an autograd.Function gradients are always off
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    return _VocabularyLoss.apply(hidden, weight, bias, target, smoothing, output.products)


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        precision: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        learning = any(context.needs_input_grad[:3])
        device = hidden.device.type
        if torch.is_autocast_enabled(device):
            precision = torch.get_autocast_dtype(device)
        elif not learning:
            precision = weight.dtype
        with torch.autocast(device, enabled=False):
            losses, *gradients = _in_rows(hidden, weight, bias, target, smoothing, precision, learning)
        context.save_for_backward(*gradients)
        context.mark_non_differentiable(losses)
        return losses.sum(), losses

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        to_hidden, to_weight, to_bias = (None if grad is None else grad * above[0] for grad in context.saved_tensors)
        return to_hidden, to_weight, to_bias, None, None, None


def _in_rows(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    smoothing: float,
    precision: torch.dtype,
    learning: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Losses (N,), and the gradients of their sum to hidden, weight and bias; matrix products are in `precision`."""
    losses = weight.new_empty(len(hidden))
    to_hidden = torch.empty_like(hidden) if learning else None
    to_weight = torch.zeros_like(weight) if learning else None
    to_bias = torch.zeros_like(bias) if learning and bias is not None else None
    average = weight.mean(0)  # the mean logit of a row is h · mean(W) + mean(b)
    matrix, exact = weight.to(precision), precision == weight.dtype
    room = weight.new_empty(min(ROWS, len(hidden)), len(weight))
    rough = weight.new_empty(0) if exact else room.new_empty(ROWS, len(weight), dtype=precision)
    half, whole = torch.empty_like(matrix), torch.empty_like(weight)  # sums over rows are in full precision
    for start in range(0, len(hidden), ROWS):
        part, wanted = slice(start, start + ROWS), target[start : start + ROWS].unsqueeze(1)
        rows = hidden[part].to(precision) if exact else rounded(hidden[part], precision)
        logits = room[: len(wanted)]
        products = logits if exact else rough[: len(rows)]
        torch.mm(rows, matrix.T, out=products)
        logits.copy_(products[: len(wanted)])
        if bias is not None:
            logits += bias
        highest = logits.amax(1, keepdim=True)
        right = logits.gather(1, wanted)
        mean = hidden[part].to(weight.dtype) @ average + (bias.mean() if bias is not None else 0.0)
        share = torch.softmax(logits, 1, out=logits)
        normaliser = highest - share.amax(1, keepdim=True).log()  # log Σ exp, from the largest share: never log 0
        losses[part] = (normaliser - (1 - smoothing) * right).squeeze(1) - smoothing * mean
        if to_hidden is None or to_weight is None:
            continue
        # softmax − (1 − ε) one-hot − ε/V, the last term by rank one instead of a pass over every logit
        share.scatter_add_(1, wanted, share.new_full(wanted.shape, smoothing - 1))
        if to_bias is not None:
            to_bias += share.sum(0)
        products[: len(wanted)] = share
        products[len(wanted) :] = 0
        to_hidden[part] = (products @ matrix)[: len(wanted)] - smoothing * average
        if exact:
            to_weight.addmm_(products.T, rows)
        else:
            to_weight += whole.copy_(torch.mm(products.T, rows, out=half))
    if to_weight is not None:
        to_weight -= hidden.sum(0) * (smoothing / len(weight))
    if to_bias is not None:
        to_bias -= len(hidden) * smoothing / len(weight)
    return losses, to_hidden, to_weight, to_bias
